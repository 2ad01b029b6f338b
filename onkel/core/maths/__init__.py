"""What one reads as mathematics: kernels, losses, label sets, steps, budgets, each a value with its formulas.

A new loss, kernel, step or budget rule comes in here, one file each.  Imports core/machine alone.
"""
