"""What a kernel says of itself: the bases of kernels, those of one quantity of two points and others."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel.core.maths.features import Directions
from onkel.core.maths.value import DEFINED, Value

Array = NDArray[Any]


ANY = frozenset(("dense", "sparse", "objects"))


class Kernel(Value, abstract=True):
    """+ and * between kernels and with positive numbers, and k(X, Z) as a matrix."""

    asked: ClassVar = {"direct": "whether the hot loop fills the kernel's rows itself"}
    direct: ClassVar[Any]
    geometry: ClassVar[str | None] = None  # what a kernel that learners can share looks at
    cuda: ClassVar[str | None] = None  # see Formula; None: not on the graphics card
    takes: ClassVar[Any] = frozenset(("dense", "sparse"))  # kinds of points; "objects" are whatever a user's function understands

    @classmethod
    def complete(cls) -> None:
        super().complete()
        if cls.name is not None and cls.of_gamma.__func__ is Kernel.of_gamma.__func__:  # type: ignore[attr-defined]
            raise TypeError(f"{cls.__name__} has a name, and must say of_gamma(gamma, degree, coef0): what estimators make of it")

    @classmethod
    def of_gamma(cls, gamma: float, degree: int, coef0: float) -> Any:
        """The kernel in the parameters of estimators, which measure width by gamma, as scikit-learn does."""
        raise NotImplementedError

    def waves(self, rng: np.random.Generator, rows: int, width: int) -> Directions:
        """Waves w with k(x, z) = E cos(w.(x - z)), for a kernel of that difference with k(x, x) = 1."""
        raise ValueError(f"{self!r} is no mixture of waves that onkel knows: take RBF, Laplacian, Matern, or a product of such")

    asks_gamma: ClassVar[bool] = True  # whether that depends on gamma

    def __add__(self, other: Any) -> Any:
        return DEFINED["Sum"](self, other)

    def __radd__(self, other: Any) -> Any:
        return DEFINED["Sum"](other, self)

    def __mul__(self, other: Any) -> Any:
        return DEFINED["Product"](self, other)

    def __rmul__(self, other: Any) -> Any:
        return DEFINED["Product"](other, self)

    def __call__(self, X: Any, Z: Any = None) -> Array:
        from onkel.core.points.matrices import matrix

        return matrix(self, X, X if Z is None else Z)

    # --- between points in blocks (core/points): X and Z are stores -------------------------------------------------------------

    def between(self, X: Any, Z: Any, live: int, K: Array, lower: bool = False) -> Array:
        """k between the block X and the first points of Z, into K.  Beyond the first ``live`` points Z is empty room: there K
        only has to be finite; with ``lower`` that goes for all but what is below the diagonal."""
        raise NotImplementedError

    def diagonal(self, X: Any) -> Array:
        """k(x, x) of the rows of X."""
        raise NotImplementedError


# --- kernels of one quantity ---------------------------------------------------------------------------------------------------


class Formula(Kernel, abstract=True):
    """A kernel that is a formula of one quantity of its two points.

    geometry   "product" x.x', "square" |x - x'|^2, "absolute" |x - x'|_1, or "constant": nothing at all, 0
    transform  (kernel, q) -> k, of the quantity, which may be sixteen numbers at once (machine/lanes.py)
    own        k(x, x) where it is one number for all x, else None: then it is the transform of what x has with itself
    cuda       the transform in C, of ``q`` and the numbers ``p[0]``, ``p[1]``, ... that ``card`` gives; None: not on the card
    """

    formulas: ClassVar = {"transform": {"inlined": True}}
    asked: ClassVar = {
        "geometry": 'what it looks at: "product", "square", "absolute" or "constant"',
        "transform": "how that becomes a kernel value, as a function (kernel, q)",
        "own": "k(x, x) where that is one number, else None",
        "cuda": "the transform in C, or None where the card is not to know it",
    }
    direct: ClassVar[Any] = True
    geometry: ClassVar[str]
    own: ClassVar[float | None]

    @classmethod
    def complete(cls) -> None:
        super().complete()
        for key in ("geometry", "cuda"):  # of these Kernel has what others may leave as it is
            if all(key not in base.__dict__ for base in cls.__mro__[: cls.__mro__.index(Formula)]):
                raise TypeError(f"{cls.__name__} must say {key}: {Formula.asked[key]}")
        if cls.geometry not in GEOMETRIES:
            raise TypeError(f"{cls.__name__}: geometry must be one of {', '.join(map(repr, GEOMETRIES))}; got {cls.geometry!r}")

    def card(self) -> tuple[float, ...]:
        """The numbers that ``cuda`` calls p[0], p[1], ...: at most three."""
        return tuple(self)

    def between(self, X: Any, Z: Any, live: int, K: Array, lower: bool = False) -> Array:
        return X.kernel(self, Z, K, lower)  # type: ignore[no-any-return]

    def diagonal(self, X: Any) -> Array:
        return X.diagonal(self)  # type: ignore[no-any-return]


GEOMETRIES = ("product", "square", "absolute", "constant")


def as_kernel(given: Any) -> Any:
    """A kernel of ours as it is, any other callable as a matrix kernel."""
    if isinstance(given, Kernel):
        return given
    if hasattr(type(given), "as_kernel"):
        return given.as_kernel()
    if callable(given) and not isinstance(given, type):
        from onkel.core.maths.user_kernel import Matrix

        return Matrix(given)
    raise TypeError(
        f"kernel: give a kernel such as onkel.RBF(sigma=1.0), onkel.kernel(function), or a callable (X, Z) -> matrix; got {given!r}"
    )
