"""Synthetic streams that drift, made in memory from a seed.

The papers show pictures of their streams and describe them in a few words, but give no generator. These are our own,
made to those words; what the words leave open is chosen here. Each function returns `(X, y)` in the order of time:
float64 points of shape (n, 2) and labels -1.0 and +1.0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def drifting_mixtures(n: int = 2000, seed: int = 0) -> tuple[Array, Array]:
    """Two classes, each a mixture of two Gaussians that drift and turn ([C] Figure 1, left).

    The Gaussians sit on the corners of a square, neighbours in different classes. The square climbs from 400 to 3100,
    sways about 200 and turns once around, which fills the picture's axes (-400 to 800, 0 to 3500). Each corner so comes
    to where the other class was some 250 examples earlier: it pays to forget. Start angle, sway and sense of rotation
    depend on the seed. The Gaussians are as wide as it takes for a good learner to err on 7 to 9 points of 100, the
    range of the paper's figure.

    >>> X, y = drifting_mixtures(2000, seed=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((2000, 2), [-1.0, 1.0])
    >>> bool(X[:200, 1].mean() < 1000 and X[-200:, 1].mean() > 2500)
    True
    """
    rng = np.random.default_rng(seed)
    start_angle, start_sway = rng.uniform(0, 2 * np.pi, 2)
    turn = rng.choice([-2 * np.pi, 2 * np.pi])
    half_side, width = 170.0, 85.0

    time = np.linspace(0, 1, n)
    centre = np.stack([200 + 200 * np.sin(2 * np.pi * time + start_sway), 400 + 2700 * time], axis=1)
    y = rng.choice([-1.0, 1.0], n)
    right = rng.choice([-1.0, 1.0], n)  # which of its class's two Gaussians a point comes from
    angle = start_angle + turn * time
    corner = rotate(half_side * np.stack([right, right * y], axis=1), angle)
    return centre + corner + rng.normal(0, width, (n, 2)), y


def rotate(points: Array, angle: Array) -> Array:
    """Each row of `points` turned about the origin by its own angle."""
    cos, sin = np.cos(angle), np.sin(angle)
    return np.stack([cos * points[:, 0] - sin * points[:, 1], sin * points[:, 0] + cos * points[:, 1]], axis=1)


def moving_mixtures(
    n: int = 10_000,
    *,
    every: int = 10,
    change: float = 0.05,
    margin: float = 1.0,
    gaussians: int = 2,
    width: float = 0.7,
    seed: int = 0,
) -> tuple[Array, Array]:
    """Cleanly separable classes whose Gaussians move after every few examples ([K] Figure 2).

    Each class is a mixture of `gaussians` Gaussians of standard deviation `width`. After `every` examples a mean m is
    `sqrt(1 - change^2) m + change * fresh`, with `fresh` a new draw from the law of the first means: a small `change`
    is a small step, 1 a jump to anywhere, and the stream looks alike early and late. An example is removed if the Bayes
    classifier gets it wrong or nearly so, i.e. unless `y log(p(x | +1) / p(x | -1)) >= margin`.

    The defaults are the paper's drifting stream, a small change every 10 examples.

    >>> X, y = moving_mixtures(500, seed=1)
    >>> X.shape, bool(abs(y.mean()) < 0.5)
    ((500, 2), True)
    """
    rng = np.random.default_rng(seed)
    spread = 3.0
    means = rng.normal(0, spread, (2, gaussians, 2))  # class (-1, +1), Gaussian, coordinate
    X, y = np.empty((n, 2)), np.empty(n)
    for start in range(0, n, every):
        stop = min(start + every, n)
        while start < stop:
            label, which = rng.integers(0, 2, 4 * every), rng.integers(0, gaussians, 4 * every)
            points = means[label, which] + rng.normal(0, width, (4 * every, 2))
            sign = 2.0 * label - 1
            kept = np.flatnonzero(sign * log_odds(points, means, width) >= margin)[: stop - start]
            X[start : start + len(kept)], y[start : start + len(kept)] = points[kept], sign[kept]
            start += len(kept)
        means = np.sqrt(1 - change**2) * means + change * rng.normal(0, spread, means.shape)
    return X, y


def switching_mixtures(n: int = 10_000, seed: int = 0) -> tuple[Array, Array]:
    """Mixtures that stand still for 1000 examples, then jump anywhere: the switching stream of [K] Figure 2.

    >>> X, y = switching_mixtures(3000, seed=0)
    >>> X.shape
    (3000, 2)
    """
    return moving_mixtures(n, every=1000, change=1.0, seed=seed)


def log_odds(points: Array, means: Array, width: float) -> Array:
    """`log p(x | +1) - log p(x | -1)` for round Gaussians of equal weight; `means` is (2 classes, Gaussians, 2)."""
    exponent = -((points[:, None, None] - means) ** 2).sum(-1) / (2 * width**2)  # (n, 2, Gaussians)
    per_class = np.logaddexp.reduce(exponent, axis=-1)
    return np.asarray(per_class[:, 1] - per_class[:, 0])
