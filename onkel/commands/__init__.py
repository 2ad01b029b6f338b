"""What the terminal offers: `onkel run`, `predict`, `info`, `demo`, completion, and the tables that they read.

Arguments, tables and files come in, whoever made them; models, answers and words go out.
Imports the library and the terminal room; nothing of experiments and bench.
"""
