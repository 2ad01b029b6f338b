"""The oracle's own checks: against general minimisers, numerical derivatives and identities, never against the package."""

from __future__ import annotations

import math

import numpy as np
import pytest

import naive
from naive import Naive

SCALAR = ["hinge", "novelty", "square", "logistic", "eps", "huber"]
TREE = naive.tree([-1, 0, 0, 1, 1, 2, 2])  # two pairs of leaves
LABELS = {"flat": naive.flat(4), "tree": TREE}


def stream(loss: str, n: int = 40, m: int = 4, seed: int = 0):
    """Points around a circle and targets that fit the loss, with some noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    angle = np.arctan2(X[:, 1], X[:, 0]) + 0.3 * rng.normal(size=n)
    if loss in ("structured", "softmax"):
        return X, (np.floor((angle % (2 * np.pi)) / (2 * np.pi) * m).astype(int) % m)
    if loss in ("hinge", "logistic"):
        return X, np.where(np.sin(angle) > 0, 1.0, -1.0)
    return X, None if loss == "novelty" else 1.5 * np.sin(angle) + 0.3 * rng.normal(size=n)


def learner(loss: str, step: str, labels: str = "flat", **options) -> Naive:
    if loss in ("structured", "softmax"):
        options["labels"] = LABELS[labels]
    return Naive(naive.rbf(0.8), loss, step, **options)


# ---------------------------------------------------------------------------------------------------- losses and labels


@pytest.mark.parametrize("loss", [*SCALAR, "structured", "softmax"])
def test_derivatives_are_those_of_the_value(loss):
    rng = np.random.default_rng(1)
    m = 4 if loss in ("structured", "softmax") else 1
    for _ in range(20):
        g, theta, h = rng.normal(size=m) * 2, rng.uniform(0.2, 1.5), 1e-6
        y = rng.integers(4) if m == 4 else rng.choice([-1.0, 1.0])
        _, xi, H, _ = naive.loss_at(loss, g, y, theta, TREE[0])
        for i, e in enumerate(np.eye(m)):
            up, down = (naive.loss_at(loss, g + s * h * e, y, theta, TREE[0]) for s in (1, -1))
            assert (up[0] - down[0]) / (2 * h) == pytest.approx(xi[i], abs=1e-8)
            assert (up[1] - down[1]) / (2 * h) == pytest.approx(H[i], abs=1e-8)


def test_nothing_overflows():
    with np.errstate(all="raise", under="ignore"):
        for size in (1e4, -1e4):
            value, xi, H, _ = naive.loss_at("logistic", np.array([size]), 1.0, 0.0)
            assert np.isfinite([value, xi[0], H[0, 0]]).all()
            value, xi, H, _ = naive.loss_at("softmax", np.array([size, 0.0, -size]), 1, 0.0)
            assert np.isfinite([value, *xi, *H.ravel()]).all()


def test_ties():
    at = np.array([1.0])
    assert naive.loss_at("hinge", at, 1.0, 1.0, tie=True)[3] == 1
    assert naive.loss_at("hinge", at, 1.0, 1.0)[3] == 0
    assert naive.loss_at("novelty", at, None, 1.0, tie=True)[3] == 0
    assert naive.loss_at("eps", at, 2.0, 1.0)[3] == naive.loss_at("huber", at, 2.0, 1.0)[3] == 0
    assert naive.runner_up(np.zeros(4), 0, 1.0, naive.flat(4)[0]) == 1
    assert naive.runner_up(np.zeros(4), 0, 1.0, TREE[0]) == 2
    for loss in ("hinge", "logistic", "structured", "softmax"):
        X, y = stream(loss)
        assert learner(loss, "explicit").step(X[0], y[0])["mistake"]


def test_tree_cost_is_the_kernel_distance_and_the_path_length():
    cost, kappa = TREE
    own = np.diag(kappa)
    assert np.array_equal(cost, (own[:, None] + own[None] - 2 * kappa) / 2)
    assert np.array_equal(cost, [[0, 1, 2, 2], [1, 0, 2, 2], [2, 2, 0, 1], [2, 2, 1, 0]])
    cost, kappa = naive.tree([-1, 0, 0, 0])
    assert np.array_equal(cost, 1 - np.eye(3)) and np.array_equal(kappa, 1 + np.eye(3))


# ---------------------------------------------------------------------------------------------------- the implicit step

PROX = [(loss, "flat", False) for loss in [*SCALAR, "softmax"]]
PROX += [("softmax", "tree", False)] + [("structured", labels, exact) for labels in LABELS for exact in (False, True)]


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("loss, labels, exact", PROX)
def test_implicit_step_is_the_minimum(loss, labels, exact, offset):
    """The learner's own step, seen through F and ||f_t||^2, against a general minimiser of the whole objective."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = stream(loss, 9, seed=seed)
        options = {"eta": rng.uniform(0.3, 3), "lam": rng.uniform(0.05, 0.5), "C": rng.uniform(0.3, 2), "theta": 0.7}
        twin = learner(loss, "implicit", labels, offset=offset, exact=exact, **options)
        twin.run(X[:-1], None if y is None else y[:-1])
        x, target = X[-1], None if y is None else y[-1]
        F, norm2, b = twin.f(x), twin.inner(twin.alpha, twin.alpha), twin.b
        rival = naive.runner_up(F + b, target, 0.7, twin.cost) if loss == "structured" else None
        found, objective = naive.prox_brute(
            loss, F, norm2, twin.kappa, target, options.pop("theta") and 0.7, **options,
            cost=twin.cost, rival=rival, exact=exact, b=b if offset else None,
        )  # fmt: skip
        old = len(twin.alpha), [row.copy() for row in twin.alpha]
        twin.step(x, target)
        q = 1 / (1 + options["eta"] * options["lam"])
        a = twin.alpha[-1] if len(twin.alpha) > old[0] else np.zeros(twin.m)
        ours = np.concatenate([[q], a, twin.b])
        assert all(np.allclose(row, q * before) for row, before in zip(twin.alpha, old[1], strict=False))
        assert objective(ours) <= objective(found) + 1e-9 * (1 + abs(objective(found)))
        assert ours == pytest.approx(found, abs=2e-4)
        for _ in range(200):
            near = ours + 1e-3 * rng.normal(size=len(ours)) * np.r_[np.ones(1 + twin.m), np.full(twin.m, offset)]
            assert objective(ours) <= objective(near)
