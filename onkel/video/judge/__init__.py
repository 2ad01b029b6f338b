"""How good a subtractor is: labelled sequences, precision, recall and F, the same on changed copies.

Imports the subtractor as any user would.
"""
