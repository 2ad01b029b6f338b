"""Everything that knows Numba and LLVM from inside: the decorator, vectors of sixteen numbers, calls without overhead.

No mathematics of learning.  Imports NumPy and Numba alone; all other rooms compile through it.
"""
