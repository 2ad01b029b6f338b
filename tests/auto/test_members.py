"""Parts of a portfolio beside slow, plain versions of themselves: kernels, learned widths, merging, views, halves, features."""

import math

import numpy as np
import pytest

from onkel.core.machine.compiled import compiled
from onkel.core.portfolio import features, halves, kernels, make, points, views


@compiled
def _narrow(a, out):
    for i in range(len(a)):
        out[i] = halves.narrow(a[i])


@compiled
def _wide(a, out):
    for i in range(len(a)):
        out[i] = halves.wide(a[i])


def filled(n=70, d=7, classes=3, seed=0):
    """A portfolio with n random points."""
    rng = np.random.default_rng(seed)
    s = make.portfolio(d, classes, make.plan(60_000, d, classes, False, True))
    s.points.code[:, :n] = rng.integers(-40, 40, (d, n))
    coef, bits = rng.normal(size=(len(s.members.cap), 3, n)).astype(np.float32), np.zeros(n, np.uint16)
    for m in range(len(coef)):
        for k in range(3):
            _narrow(coef[m, k], bits)
            s.points.coef[m, k, :n] = bits
    s.points.bend[:] = rng.normal(size=s.points.bend.shape) * 0.3
    s.views.median[:] = 3.0, 6.0, 2.0, 5.0
    s.views.count[1] = n
    for p in range(n):
        points.weigh(s.members, s.points, p)
    q = rng.integers(-40, 40, d).astype(np.float32)
    metric = np.zeros((len(s.members.cap), d), np.float32)
    kernels.measure(s.members, s.views, s.points, metric, 0)
    return s, q, metric, n


def plain(s, m, q, code, bend=None):
    """k of member m, by its formula."""
    z, other = q.astype(float) / 16, code.astype(float) / 16
    width, median = s.members.width[m], s.views.median[2 * s.members.raw[m] + s.members.laplace[m]]
    bend = s.points.bend[s.members.place[m]].astype(float) if bend is None else bend
    scale = np.exp(bend) if s.members.rate[m] else np.ones(len(q))
    if s.members.laplace[m]:
        return math.exp(-(scale * abs(z - other)).sum() / (width * median))
    return math.exp(-(scale * (z - other) ** 2).sum() / (2 * width**2 * median))


def rows_of(s, metric, q, n):
    K = np.zeros((len(metric), s.points.code.shape[1]), np.float32)
    kernels.kernels(s.members, s.points.code, n, q, metric, K, np.zeros((4, kernels.TILE), np.float32))
    return K


@pytest.mark.parametrize("d", [1, 4, 7])
def test_kernels_are_their_formulas(d):
    s, q, metric, n = filled(d=d)
    K = rows_of(s, metric, q, n)
    for m in range(len(metric)):
        for p in range(n):
            assert K[m, p] == pytest.approx(plain(s, m, q, s.points.code[:, p]), rel=2e-5, abs=1e-30)


def test_widths_move_against_the_gradient_of_the_loss():
    s, q, metric, n = filled()
    K = rows_of(s, metric, q, n)
    coef = np.random.default_rng(1).normal(size=n)
    for m in np.flatnonzero(s.members.rate > 0):
        before = s.points.bend[s.members.place[m]].astype(float)

        def margin(bend, m=m):
            return sum(c * plain(s, m, q, s.points.code[:, p], bend) for p, c in enumerate(coef))

        steps = 1e-5 * np.eye(len(q))
        slope = np.array([(margin(before + e) - margin(before - e)) / 2e-5 for e in steps])
        pull = np.zeros(s.points.code.shape[1], np.float32)
        pull[:n] = coef * K[m, :n]
        kernels.bend(s.members, m, s.points, n, q, metric, pull, np.zeros(len(q), np.float32))
        moved = s.points.bend[s.members.place[m]] - before
        expected = s.members.rate[m] * slope / math.sqrt((1 - kernels.DECAY) * (slope**2).mean())  # towards a larger margin
        assert np.allclose(moved, expected, rtol=2e-3, atol=2e-4)


def test_the_lightest_point_goes_into_each_members_nearest_neighbour():
    s, q, metric, n = filled()
    table = s.points.coef.copy()
    expected = int(s.points.heft[:n].argmin())
    K, tile = np.zeros((len(metric), s.points.code.shape[1]), np.float32), np.zeros((4, kernels.TILE), np.float32)
    gone = points.free(s.members, s.points, n, metric, K, tile, np.zeros(len(q), np.float32))
    assert gone == expected
    wide_before, wide_after = np.zeros(n, np.float32), np.zeros(n, np.float32)
    for m in range(len(metric)):
        near = max((p for p in range(n) if p != gone), key=lambda p: K[m, p])
        for k in range(3):
            _wide(table[m, k, :n], wide_before)
            _wide(s.points.coef[m, k, :n], wide_after)
            want = wide_before.copy()
            want[near] += K[m, near] * want[gone]
            want[gone] = 0
            assert np.allclose(wide_after, want, rtol=5e-3, atol=1e-6)


def test_halves_are_the_nearest_of_sixteen_bits():
    a = np.random.default_rng(0).normal(size=1000).astype(np.float32) * np.float32(10.0) ** np.arange(-20, 20).repeat(25)
    bits, back = np.zeros(1000, np.uint16), np.zeros(1000, np.float32)
    _narrow(a, bits)
    _wide(bits, back)
    assert (np.abs(back - a) <= 2.0**-8 * np.abs(a)).all()
    again = np.zeros(1000, np.uint16)
    _narrow(back, again)
    assert np.array_equal(bits, again)


def test_views_are_means_and_deviations_and_recoding_keeps_rows():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(5, 2, 200), rng.integers(0, 2, 200), rng.standard_t(1.1, 200)])
    s = make.portfolio(3, 2, make.plan(60_000, 3, 2, False, True))
    for x in X:
        views.absorb(s.views, x)
    assert np.allclose(s.views.mean, X.mean(axis=0))
    assert np.allclose(np.sqrt(s.views.spread / 200), X.std(axis=0))
    views.recode(s.views, s.points.code, 0)
    assert s.views.form.tolist() == [0, 1, 2]
    z, q, u = (np.zeros(3, np.float32) for _ in range(3))
    views.see(s.views, X[0], z, q, u)
    sd = (X[0] - X.mean(axis=0)) / X.std(axis=0)
    assert np.allclose(z, [sd[0], X[0, 1], np.arcsinh(sd[2])], atol=1e-5)
    s.points.code[:, 0] = q
    s.views.spread[:] *= 2.0
    views.recode(s.views, s.points.code, 1)
    views.see(s.views, X[0], z, q, u)
    assert np.abs(s.points.code[:, 0] - q).max() <= 1


def test_random_features_are_a_kernel():
    rng = np.random.default_rng(0)
    D, median = 4096, 9.0
    A = rng.normal(size=(6, 12)).astype(np.float32)
    out = np.zeros((6, D), np.float32)
    for i in range(6):
        features.features(A[i], median, D, np.zeros(16, np.float32), out[i])
    exact = np.exp(-((A[:, None] - A) ** 2).sum(axis=2) / (2 * features.WIDTH**2 * median))
    assert np.abs(out @ out.T - exact).max() < 0.08
