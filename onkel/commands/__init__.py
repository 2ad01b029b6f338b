"""What the terminal offers: `onkel run`, `onkel demo`, completion, and the tables that they read.

Text in, text out; the work is the library's.  May import everything but onkel.cli.
"""
