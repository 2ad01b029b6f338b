"""What one reads as mathematics: kernels, losses, label sets, steps, budgets, each a value with its formulas; value.py says what a
value is, kernel.py, loss.py and rules.py what each kind has to say of itself.

A new loss, kernel, step or budget rule comes in here, one file each.  Imports core/machine alone.
"""
