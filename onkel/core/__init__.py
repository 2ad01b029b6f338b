"""The algorithms: one loop, the values that describe a learner, and the arrays that it learns into.

What belongs here is exact, compiled and tested against tests/core/naive.py.  Imports NumPy and Numba only; ``backend="gpu"``
reaches up to onkel/gpu when it is asked for.

To read it: recipes, learner, state; loop/layout, loop/step, loop/scan; maths/losses, maths/kernels, maths/steps, maths/budget; then
drive, which feeds the loop, and loop/evict, which makes room.
"""
