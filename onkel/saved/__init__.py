"""Models as trees of plain values and arrays, which onkel.persist writes to files and reads back.

Every check of what a file says belongs here.  Imports core and theory.
"""
