"""What every command shares when it talks to a person: Ctrl-C, progress, arguments.

Imports the standard library alone.
"""
