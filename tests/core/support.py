"""What the tests of the core share: learners of every kind, a stream with repetitions, and when two models are the same."""

import numpy as np
import pytest

from onkel import (
    Adaptive,
    Budget,
    Explicit,
    Hinge,
    Implicit,
    InvSqrt,
    Labels,
    Novelty,
    Square,
    Structured,
)  # fmt: skip
from onkel.core.loop import layout as at
from onkel.core.state import State

LABELS = Labels.flat(3)
LOSSES = {"hinge": Hinge(), "square": Square(), "structured": Structured(LABELS), "novelty": Novelty()}
STEPS = {
    "explicit": Explicit(0.3, 0.05, 1.3),
    "schedule": Explicit(InvSqrt(0.7), 0.05),
    "implicit": Implicit(0.8, 0.05, 1.3),
    "adaptive": Adaptive(0.3, 0.05, mu=0.2, decay=0.9),
    "adaptive-implicit": Adaptive(0.3, 0.05, mu=0.2, decay=0.9, implicit=True),
}
BUDGETS = {
    "all": Budget(),
    "oldest": Budget(9),
    "smallest": Budget(9, "smallest"),
    "merge": Budget(9, "merge"),
    "project": Budget(9, "project"),
    "window": Budget(window=11),
    "growing": Budget(window=lambda t: t if t <= 20 else int(t**0.8) + 1),
}


def stream(loss: str = "hinge", n: int = 70, seed: int = 0, d: int = 2):
    """Examples with some of them seen again, to the bit."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    again = rng.integers(0, n // 2, n // 7)
    X[n // 2 : n // 2 + len(again)] = X[again]
    if loss == "structured":
        return X, rng.integers(0, 3, n)
    if loss == "square":
        return X, np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=n)
    return X, None if loss == "novelty" else np.where(X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=n) > 0, 1.0, -1.0)


def as_bytes(state: State) -> bytes:
    """Everything that a state holds, to the bit."""
    arrays = [state.num, state.slots, state.born, state.gram]
    if state.store is not None:
        arrays += [part for part in vars(state.store).values() if isinstance(part, np.ndarray)]
    kept = repr(state.store.items).encode() if hasattr(state.store, "items") else b""
    return b"|".join(a.tobytes() for a in arrays) + kept + bytes(f"{state.m} {state.base} {state.width}", "ascii")


def same(a: State, b: State, tolerance: float = 0.0) -> None:
    """The same model: points in the same order, coefficients, trace, offset, margin, clock."""
    assert (a.t, a.size) == (b.t, b.size)
    np.testing.assert_array_equal(a.points, b.points)
    for ours, theirs in ((a.coef, b.coef), (a.trace_coef, b.trace_coef), (a.offset, b.offset)):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
    for cell in (at.THETA, at.ETA, at.PI, at.N2, at.COUNT):
        np.testing.assert_allclose(a.num[cell], b.num[cell], rtol=tolerance, atol=tolerance)


def part(y, cut):
    return None if y is None else y[cut]


every_step = pytest.mark.parametrize("step", STEPS)
every_budget = pytest.mark.parametrize("budget", BUDGETS)
every_loss = pytest.mark.parametrize("loss", LOSSES)
KINDS = {type(value): name for name, value in LOSSES.items()}


def run(learner, X, y, weight=None):
    return learner.learn(learner.init(), X, y, weight)
