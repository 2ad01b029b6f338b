"""Kernels k(x, x'): values with parameters, which know how to fill a row of numbers.

A kernel of this library says which quantity of two points it looks at (``geometry``: their product, their squared distance, the
sum of their absolute differences, or nothing) and how that quantity becomes a kernel value (``transform``, compiled, of one number
or of sixteen at once).  The rest follows: matrices by BLAS, single rows inside the hot loop, sums and products.  Anything callable
as ``(X, Z) -> matrix`` is a kernel too, on any kind of points.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from onkel.core.machine.lanes import LOG2E, capped, exp2, like, root
from onkel.core.machine.numbers import larger, smaller
from onkel.core.maths.features import Directions, directions
from onkel.core.maths.kernel import ANY, Array, Formula, Kernel, as_kernel
from onkel.core.maths.value import field, number, one_of, whole

__all__ = ["RBF", "AsItIs", "Constant", "Laplacian", "Linear", "Matern", "Pair", "Polynomial", "Product", "Sum", "as_part"]
__all__ += ["ANY", "Array", "Formula", "Kernel", "as_kernel"]  # the bases, from kernel.py

STEEPEST = -1e38  # a width so small that 1/sigma overflows: finite even in float32, so that 2^(0 * STEEPEST) is 1


class RBF(Formula):
    """Gaussian kernel exp(-|x - x'|^2 / (2 sigma^2)).  [V] (60)

    >>> float(RBF(sigma=2.0)([[0.0, 0.0]], [[2.0, 0.0]])[0, 0]) == math.exp(-0.5)
    True
    """

    sigma: float = number(1.0, above=0)

    name = "rbf"
    geometry = "square"
    own = 1.0
    cuda = "EXP(p[0] * q)"

    def transform(kernel, q):
        return exp2(q * like(q, larger(-0.5 * LOG2E / (kernel.sigma * kernel.sigma), STEEPEST)))

    def card(self) -> tuple[float, ...]:
        return (-0.5 / (self.sigma * self.sigma),)

    def waves(self, rng: np.random.Generator, rows: int, width: int) -> Directions:
        drawn = directions(rng, rows, width)
        return drawn._replace(lengths=drawn.lengths / self.sigma)

    @classmethod
    def of_gamma(cls, gamma: float, degree: int, coef0: float) -> RBF:
        return cls(math.sqrt(0.5 / gamma))  # exp(-gamma d^2) = exp(-d^2 / (2 sigma^2))


class Laplacian(Formula):
    """exp(-|x - x'|_1 / sigma), with the sum of absolute differences."""

    sigma: float = number(1.0, above=0)

    name = "laplacian"
    geometry = "absolute"
    own = 1.0
    cuda = None

    def transform(kernel, q):
        return exp2(q * like(q, larger(-LOG2E / kernel.sigma, STEEPEST)))

    def waves(self, rng: np.random.Generator, rows: int, width: int) -> Directions:
        """Cauchy in each coordinate: no direction is like another, so none are made orthogonal."""
        w = rng.standard_cauchy((rows, width)) / self.sigma
        return Directions(np.ones(rows), w, None, width)

    @classmethod
    def of_gamma(cls, gamma: float, degree: int, coef0: float) -> Laplacian:
        return cls(1.0 / gamma)


class Matern(Formula):
    """Matern kernel of smoothness nu = 1/2, 3/2 or 5/2: with u = sqrt(2 nu) |x - x'| / sigma,
    exp(-u), (1 + u) exp(-u) or (1 + u + u^2/3) exp(-u)."""

    sigma: float = number(1.0, above=0)
    nu: float = one_of(1.5, 0.5, 1.5, 2.5)

    name = "matern"
    geometry = "square"
    own = 1.0
    cuda = "real u = SQRT(q) * p[0]; u = u < 1000 ? u : 1000; return ((u * p[2] + p[1]) * u + 1) * EXP(-u);"

    def card(self) -> tuple[float, ...]:
        return math.sqrt(2.0 * self.nu) / self.sigma, float(self.nu > 1.0), 1.0 / 3.0 if self.nu > 2.0 else 0.0

    def transform(kernel, q):
        scale = like(q, smaller(math.sqrt(2.0 * kernel.nu) / kernel.sigma, -STEEPEST))
        u = capped(root(q) * scale, 1000.0)  # beyond, exp(-u) is nothing, but u^2 may be infinite
        first = like(q, 0.0 if kernel.nu < 1.0 else 1.0)
        second = like(q, 1.0 / 3.0 if kernel.nu > 2.0 else 0.0)
        return ((u * second + first) * u + like(q, 1.0)) * exp2(u * like(q, -LOG2E))

    def waves(self, rng: np.random.Generator, rows: int, width: int) -> Directions:
        """Student's t of 2 nu degrees of freedom, in all directions alike."""
        drawn = directions(rng, rows, width)
        spread = np.sqrt(2.0 * self.nu / rng.chisquare(2.0 * self.nu, rows))
        return drawn._replace(lengths=drawn.lengths * spread / self.sigma)

    @classmethod
    def of_gamma(cls, gamma: float, degree: int, coef0: float) -> Matern:
        return cls(math.sqrt(0.5 / gamma))


class Polynomial(Formula):
    """(gamma x.x' + coef0)^degree.  Scale the data first: degree 9 on raw pixels overflows."""

    degree: int = whole(3)
    gamma: float = number(1.0, above=0)
    coef0: float = number(1.0, low=0)  # a negative one would make the kernel indefinite

    name = "poly"
    geometry = "product"
    own = None
    cuda = "power(p[0] * q + p[1], p[2])"

    def transform(kernel, q):
        power = q * like(q, kernel.gamma) + like(q, kernel.coef0)
        value, left = power, kernel.degree - 1
        while left > 0:  # by squaring
            if left & 1:
                value = value * power
            left >>= 1
            power = power * power
        return value

    def card(self) -> tuple[float, ...]:
        return self.gamma, self.coef0, self.degree

    @classmethod
    def of_gamma(cls, gamma: float, degree: int, coef0: float) -> Polynomial:
        return cls(degree, gamma, coef0)


class AsItIs(Formula, abstract=True):
    cuda = "q"

    def transform(kernel, q):
        return q


class Linear(AsItIs):
    """x.x'"""

    name = "linear"
    geometry = "product"
    own = None
    asks_gamma = False

    @classmethod
    def of_gamma(cls, gamma: float, degree: int, coef0: float) -> Linear:
        return cls()


class Constant(Formula):
    """k(x, x') = value for all points: what a number becomes in ``0.5 * RBF()`` and ``RBF() + 1``.

    >>> 0.5 * RBF(2.0) + 1
    Sum(left=Product(left=Constant(value=0.5), right=RBF(sigma=2.0)), right=Constant(value=1.0))
    """

    value: float = number(above=0)

    geometry = "constant"
    own = None
    cuda = "p[0]"
    takes = ANY

    def transform(kernel, q):
        return like(q, kernel.value)

    def between(self, X: Any, Z: Any, live: int, K: Array, lower: bool = False) -> Array:
        K[:] = self.value
        return K

    def diagonal(self, X: Any) -> Array:
        return np.full(len(X), self.value, X.dtype)


class Pair(Kernel, abstract=True):
    """Two kernels, combined: ``join`` is compiled for numbers, and for sixteen of them; ``combine`` is the same for matrices."""

    left: Kernel = field(check=lambda owner, name, given: as_part(owner, name, given))
    right: Kernel = field(check=lambda owner, name, given: as_part(owner, name, given))

    formulas: ClassVar = {"join": {"inlined": True}}
    asked: ClassVar = {**Kernel.asked, "join": "how two values become one, compiled", "combine": "the same for matrices"}
    direct = property(lambda self: self.left.direct and self.right.direct)
    takes = property(lambda self: self.left.takes & self.right.takes)
    combine: ClassVar[Any]

    def between(self, X: Any, Z: Any, live: int, K: Array, lower: bool = False) -> Array:
        left = self.left.between(X, Z, live, np.empty_like(K))
        return self.combine(left, self.right.between(X, Z, live, K), out=K)  # type: ignore[no-any-return]

    def diagonal(self, X: Any) -> Array:
        return self.combine(self.left.diagonal(X), self.right.diagonal(X))  # type: ignore[no-any-return]


class Sum(Pair):
    """k1 + k2"""

    combine = staticmethod(np.add)

    def join(a, b):
        return a + b


class Product(Pair):
    """k1 k2"""

    combine = staticmethod(np.multiply)

    def waves(self, rng: np.random.Generator, rows: int, width: int) -> Directions:
        """Sums of theirs."""
        both = [side.waves(rng, rows, width).times(np.eye(width)).T for side in (self.left, self.right)]
        return Directions(np.ones(rows), both[0] + both[1], None, width)

    def join(a, b):
        return a * b


def as_part(owner: str, name: str, given: Any) -> Any:
    """Half of a sum or a product: a kernel, or a positive number, which stands for the constant kernel."""
    if isinstance(given, int | float | np.number) and not isinstance(given, bool):
        return Constant(float(given))
    return as_kernel(given)
