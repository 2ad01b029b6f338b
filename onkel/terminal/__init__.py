"""What every command shares when it talks to a person: arguments, progress, Ctrl-C, escaping, extras that are not installed.

Plain values and texts come in, whatever their origin; nothing reaches a terminal, a shell, a page or a table unescaped.
Imports the standard library alone.
"""
