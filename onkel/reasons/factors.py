"""Kernels taken apart by features: sums of q(x.z) prod_j g(x_j, z_j), with q a polynomial and g = exp(-a (x - z)^2 - b |x - z|).

All that Linear, Polynomial, RBF and Laplacian kernels can make by sums and products has this form, and what has it has exact
Shapley values in polynomial time.  A kernel of another kind may join: ``factors.register(ItsClass)`` with a function that
returns its terms.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from onkel.core.maths.kernels import RBF, Constant, Laplacian, Linear, Polynomial, Product, Sum


class Term(NamedTuple):
    """q(x.z) exp(-square |x - z|^2 - absolute |x - z|_1), q by its coefficients, the constant first."""

    q: tuple[float, ...]
    square: float = 0.0
    absolute: float = 0.0

    def __mul__(self, other: Any) -> Term:
        q = np.convolve(self.q, other.q)
        return Term(tuple(q.tolist()), self.square + other.square, self.absolute + other.absolute)


@singledispatch
def factors(kernel: Any) -> list[Term]:
    """The terms of a kernel; an error that says what to do where it has none.

    >>> factors(RBF(2.0) * Linear())
    [Term(q=(0.0, 1.0), square=0.125, absolute=0.0)]
    """
    raise TypeError(
        f"{kernel!r} does not split into features: exact Shapley values exist for RBF, Laplacian, Linear and Polynomial kernels, "
        "their sums and products; for this one estimate them: explanation.sampled(background, permutations=1000)"
    )


@factors.register
def _rbf(kernel: RBF) -> list[Term]:
    return [Term((1.0,), square=min(0.5 / (kernel.sigma * kernel.sigma), 1e300))]


@factors.register
def _laplacian(kernel: Laplacian) -> list[Term]:
    return [Term((1.0,), absolute=min(1.0 / kernel.sigma, 1e300))]


@factors.register
def _linear(kernel: Linear) -> list[Term]:
    return [Term((0.0, 1.0))]


@factors.register
def _polynomial(kernel: Polynomial) -> list[Term]:
    p = kernel.degree
    return [Term(tuple(math.comb(p, k) * kernel.gamma**k * kernel.coef0 ** (p - k) for k in range(p + 1)))]


@factors.register
def _constant(kernel: Constant) -> list[Term]:
    return [Term((kernel.value,))]


@factors.register
def _sum(kernel: Sum) -> list[Term]:
    return factors(kernel.left) + factors(kernel.right)


@factors.register
def _product(kernel: Product) -> list[Term]:
    return [one * other for one in factors(kernel.left) for other in factors(kernel.right)]
