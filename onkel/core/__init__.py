"""The algorithms: one loop, the values that describe a learner, and the arrays that it learns into.

What belongs here is exact, compiled and tested against tests/core/naive.py.  Imports NumPy and Numba only; ``backend="gpu"``
reaches up to onkel/gpu when it is asked for.

To read it in an hour: recipes, learner, state; loop/step; maths/losses, maths/kernels, maths/steps, maths/budget.  Then
loop/layout, which says where every number stands, drive, which feeds the loop, and loop/evict, which makes room.
"""
