"""The least that a process with Numba in it can do: one cached function.  What a start costs beyond this is onkel's own."""

import numba


@numba.njit(cache=True)
def nothing(x):
    return x[0]
