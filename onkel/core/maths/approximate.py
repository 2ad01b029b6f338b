"""A kernel made of random features: the inner products of what maths/features.py draws."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from onkel.core.maths.features import Array, Directions, random_features
from onkel.core.maths.kernels import Kernel
from onkel.core.maths.value import checked_whole, field, whole

MOST = 1 << 20  # features; a row of them takes 8 MB


def _kernel(owner: str, name: str, given: Any) -> Kernel:
    if isinstance(given, Kernel):
        return given
    raise TypeError(f"{owner}: {name} must be a kernel of onkel, such as onkel.RBF(1.0); got {given!r}")


def _even(owner: str, name: str, given: Any) -> int:
    if checked_whole(owner, name, given, 2) % 2 or given > MOST:
        raise ValueError(f"{owner}: {name} must be an even number (half cosines, half sines), at most {MOST}; got {given!r}")
    return int(given)


class Waves(Kernel):
    """z(x).z(x') of D random features in the place of k(x, x').

    >>> from onkel import RBF
    >>> bool(abs(Waves(RBF(1.0), 8192)([[0.0]], [[1.0]])[0, 0] - 0.6065) < 0.03)
    True
    """

    kernel: Kernel = field(check=_kernel)
    D: int = field(256, _even)
    seed: int = whole(0, low=0)

    direct = False

    def checked(self) -> Waves:
        self.kernel.waves(np.random.default_rng(0), 1, 1)  # refuses kernels that are no mixture of waves
        return self

    def features(self, X: Any) -> Array:
        """(n, D) of rows, dense or sparse."""
        return random_features(_drawn(self, X.shape[1]), X.toarray() if hasattr(X, "toarray") else X)

    def between(self, X: Any, Z: Any, live: int, K: Any, lower: bool = False) -> Any:
        K[:, live:] = 0.0
        K[:, :live] = self.features(X.plain()) @ self.features(Z.take(slice(live)).plain()).T
        return K

    def diagonal(self, X: Any) -> Any:
        return np.ones(len(X), X.dtype)


@lru_cache(maxsize=16)
def _drawn(kernel: Waves, width: int) -> Directions:
    """Always the same for the same seed, so never stored."""
    return kernel.kernel.waves(np.random.default_rng(kernel.seed), kernel.D // 2, width)
