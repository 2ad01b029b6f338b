"""`onkel serve`: models that never stop learning behind HTTP, one process and one writer, every acknowledged example kept.

What speaks HTTP, keeps the log or draws the page belongs here; the learning is the estimators'.  Needs the extra ``serve``;
imports the estimators, persist and terminal.
"""
