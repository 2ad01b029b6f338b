"""The naive twins' budgets: what goes, what stays, and when."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.core import naive
from tests.core.naive import Naive
from tests.core.test_naive import BUMPY, learner, stream

# -------------------------------------------------------------------------------------------------------------- budgets


def test_window_keeps_time_steps_and_budget_keeps_terms():
    """After step t the window ([K] Fig. 1) holds the updates of steps t - 5 ... t, the budget the last 6 updates."""
    X, y = stream("hinge", 60)
    options = {"lam": 0.3, "theta": 0.05}
    window, last = learner("hinge", "explicit", window=6, **options), learner("hinge", "explicit", budget=6, **options)
    for twin in (window, last):
        updates = []
        for t, (x, label) in enumerate(zip(X, y), 1):
            updates += [t] if label * twin.score(x) <= 0.05 else []
            twin.step(x, label)
            assert twin.born == ([s for s in updates if s > t - 6] if twin is window else updates[-6:])
            signs = [y[s - 1] for s in twin.born]
            assert twin.coef == pytest.approx([a * 0.1 * 0.97 ** (t - s) for a, s in zip(signs, twin.born)], rel=1e-12)
        assert 10 < len(updates) < 50


def test_growing_keeps_the_literal_number_of_steps():
    X, y = stream("square", 60)
    twin, e, t0, sizes = learner("square", "explicit"), 0.2, 30, []
    twin.growing = (e, t0)
    for t, (x, label) in enumerate(zip(X, y), 1):
        twin.step(x, label)
        now = t + 1  # f_{t+1}
        s = now if now <= t0 else math.ceil(now**0.7)
        assert set(twin.born) <= set(range(now - s, now))
        assert now - 1 in twin.born
        sizes.append(len(twin.born))
    assert sizes[:29] == list(range(1, 30))
    assert sizes[29] == math.ceil(31**0.7) == 12  # many leave at once when t passes t0
    assert sizes[-1] == math.ceil(61**0.7)


def test_growing_t0_is_the_smallest():
    def good(t):
        return math.exp(-2 * t**0.3) <= 2 / math.sqrt(t) <= 2 and math.ceil(t**0.8) <= 0.75 * t and t >= 4

    t0 = naive.growing_t0(4.0, 0.5, 0.3, horizon=5000)
    assert all(good(t) for t in range(t0, 5000))
    assert not good(t0 - 1)
    with pytest.raises(ValueError, match="beyond"):
        naive.growing_t0(0.1, 0.01, 0.1)


def test_silk_drops_the_smallest_and_the_new_one_competes():
    X, y = stream("square", 60)
    twin, rejected = learner("square", "implicit", eta=0.5, budget=8, drop="smallest"), 0
    for t, (x, label) in enumerate(zip(X, y), 1):
        before = dict(zip(twin.born, twin.coef))
        score = twin.score(x)
        twin.step(x, label)
        q = 1 / (1 + 0.5 * 0.01)
        everyone = {born: q * a for born, a in before.items()} | {t: 0.5 * q * (label - q * score) / (1 + 0.5 * q)}
        expected = sorted(sorted(everyone, key=lambda born: (-abs(everyone[born]), -born))[:8])
        assert twin.born == expected
        rejected += t not in twin.born
    assert 3 < rejected < 57


@pytest.mark.parametrize("lam", [0.0, 0.1])
def test_silk_is_oldest_out_while_all_coefficients_are_at_the_cap(lam):
    """Without decay all are equal, and among equals the oldest goes."""
    X, y = stream("hinge", 40)
    small, old = (learner("hinge", "implicit", lam=lam, C=0.01, budget=6, drop=d) for d in ("smallest", "oldest"))
    small.run(X, y)
    old.run(X, y)
    assert small.born == old.born == list(range(35, 41))


@pytest.mark.parametrize("step", ["explicit", "implicit", "adaptive", "adaptive_implicit"])
@pytest.mark.parametrize("drop", ["merge", "project"])
def test_merge_and_project_leave_the_least_behind(drop, step):
    """Against the same learner one step earlier, made to take the same step without a budget."""
    X, y = stream("softmax", 16)
    twin = learner("softmax", step, "tree", BUMPY, eta=0.3, budget=5, drop=drop)
    if drop == "project":
        twin.kernel = naive.rbf(0.8)
    for t, (x, label) in enumerate(zip(X, y), 1):
        if t <= 5:
            twin.step(x, label)
            continue
        twin.budget = None
        twin.step(x, label)
        born, G, full = list(twin.born), twin.gram(), {"alpha": np.array(twin.alpha), "beta": np.array(twin.beta)}
        twin.budget = 5
        twin._keep()
        j = int(np.argmin(np.abs(full["alpha"]).max(axis=1)))
        rest = [i for i in range(6) if i != j]
        assert twin.born == [born[i] for i in rest]
        for name, rows in full.items():
            moved = np.array(getattr(twin, name)) - rows[rest]
            if drop == "project":  # what is left behind is orthogonal to every point that stays
                assert G[np.ix_(rest, rest)] @ moved == pytest.approx(np.outer(G[rest, j], rows[j]), abs=1e-9)
                continue
            left = [G[j, j] - G[n, j] ** 2 / G[n, n] for n in rest]  # || k_j - projection on k_n ||^2
            n = int(np.argmin(left))
            expected = np.zeros_like(moved)
            expected[n] = rows[j] * G[rest[n], j] / G[rest[n], rest[n]]
            assert moved == pytest.approx(expected, abs=1e-12)


def test_a_point_that_vanishes_in_the_space_is_not_stored():
    for loss in ("hinge", "structured", "eps"):
        for exact in (False, True):
            twin = learner(loss, "implicit", kernel=naive.linear(), exact=exact)
            twin.step(np.zeros(2), 1)
            assert twin.points == []
    twin = Naive(naive.linear(), step="alma")
    assert twin.step(np.zeros(2), 1)["mistake"]
    assert twin.points == []


def test_one_label_never_updates():
    for step in ("explicit", "implicit", "adaptive", "adaptive_implicit"):
        twin = Naive(naive.rbf(), "structured", step, labels=naive.flat(1))
        assert twin.step(np.ones(2), 0) | {"scores": 0, "eta": 0} == {
            "scores": 0, "loss": 0.0, "mistake": False, "eta": 0, "theta": 1.0, "size": 0,
        }  # fmt: skip
