"""Kernels, label sets and schedules of the naive twins, plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray
KernelFunction = Callable[[Any, Any], float]


def rbf(sigma: float = 1.0) -> KernelFunction:
    return lambda x, z: math.exp(-sum((a - b) ** 2 for a, b in zip(x, z, strict=True)) / (2 * sigma**2))


def linear() -> KernelFunction:
    return lambda x, z: sum(float(a) * float(b) for a, b in zip(x, z, strict=True))


def polynomial(degree: int = 3, gamma: float = 1.0, coef0: float = 1.0) -> KernelFunction:
    return lambda x, z: (gamma * linear()(x, z) + coef0) ** degree


def laplacian(sigma: float = 1.0) -> KernelFunction:
    return lambda x, z: math.exp(-sum(abs(a - b) for a, b in zip(x, z, strict=True)) / sigma)


def matern(sigma: float = 1.0, nu: float = 1.5) -> KernelFunction:
    shape = {0.5: lambda s: 1.0, 1.5: lambda s: 1 + s, 2.5: lambda s: 1 + s + s**2 / 3}[nu]

    def k(x: Any, z: Any) -> float:
        s = math.sqrt(2 * nu) * math.dist(x, z) / sigma
        return shape(s) * math.exp(-s)

    return k


def flat(m: int) -> tuple[Array, Array]:
    """Cost 1 - delta and label kernel delta: plain multiclass."""
    return 1.0 - np.eye(m), np.eye(m)


def tree(parents: Sequence[int]) -> tuple[Array, Array]:
    """Cost and kernel of the leaves (parents[i] is the parent of node i, -1 for the root), from their ancestor sets.

    A node is its own ancestor and the root counts. Cost: half the symmetric difference; kernel: number in common.
    """

    def ancestors(node: int) -> set[int]:
        return {node} | (ancestors(parents[node]) if parents[node] >= 0 else set())

    leaves = [ancestors(node) for node in range(len(parents)) if node not in parents]
    cost = [[0.5 * len(a - b) + 0.5 * len(b - a) for b in leaves] for a in leaves]
    return np.array(cost), np.array([[float(len(a & b)) for b in leaves] for a in leaves])


def inv_sqrt(eta: float) -> Callable[[int], float]:
    return lambda t: eta / math.sqrt(t)


def sqrt_decay(eta: float, tau: float) -> Callable[[int], float]:
    return lambda t: eta * math.sqrt(tau / (tau + t))


def growing_size(t: int, e: float, t0: float) -> int:
    """How many of the last time steps f_t keeps in [K] Theorem 6: all of them up to t0, then ceil(t^(1/2+e))."""
    return t if t <= t0 else math.ceil(t ** (0.5 + e))


def growing_t0(eta: float, lam: float, e: float, horizon: int = 100_000) -> int:
    """The smallest t0 from which on the three conditions of [K] Theorem 6 hold, going down from the horizon."""

    def holds(t: int) -> bool:
        small = eta * lam / math.sqrt(t)
        return small <= 1 and math.exp(-eta * lam * t**e) <= small and math.ceil(t ** (0.5 + e)) <= 0.75 * t

    if not holds(horizon) or e * eta * lam * horizon**e < 0.5:  # below 0.5 the second condition can still fail later
        raise ValueError(f"t0 may lie beyond {horizon}")
    return next(t for t in range(horizon, 0, -1) if t == 1 or not holds(t - 1))
