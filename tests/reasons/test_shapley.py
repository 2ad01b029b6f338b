"""Shapley values: equal to the definition over all subsets, additive always, refused where a kernel does not split."""

import itertools
import math

import numpy as np
import pytest

import onkel
from onkel.reasons import shapley
from onkel.reasons.factors import Term, factors

KERNELS = {
    "rbf": onkel.RBF(1.2),
    "laplacian": onkel.Laplacian(2.0),
    "linear": onkel.Linear(),
    "polynomial": onkel.Polynomial(3, gamma=0.3, coef0=0.7),
    "sum": onkel.RBF(0.8) + onkel.Linear(),
    "product": onkel.RBF(1.5) * onkel.Laplacian(3.0),
    "mixed": onkel.RBF(1.0) * onkel.Polynomial(2, gamma=0.5, coef0=1.0) + onkel.Laplacian(1.0),
}


def by_definition(game, d):
    """The Shapley values of v over all subsets of d players, and v of nobody."""
    worth = {S: game(list(S)) for r in range(d + 1) for S in itertools.combinations(range(d), r)}
    values = np.zeros(d)
    for S, value in worth.items():
        for j in set(range(d)) - set(S):
            share = math.factorial(len(S)) * math.factorial(d - len(S) - 1) / math.factorial(d)
            values[j] += share * (worth[tuple(sorted((*S, j)))] - value)
    return values, worth[()]


def problem(d, n=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=n), rng.normal(size=(n, d)), rng.normal(size=d), rng.normal(size=(3, d))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("d", [1, 2, 5, 12])
def test_equal_to_the_definition(name, d):
    kernel = KERNELS[name]
    coef, points, x, background = problem(d, n=3 if d == 12 else 6)

    def left_out(S):  # a kernel on the present features alone; on none of them its constants are left
        if S:
            return float(kernel(x[None, S], points[:, S])[0] @ coef)
        return coef.sum() * sum(term.q[0] for term in factors(kernel))

    def replaced(S):
        rows = background.copy()
        rows[:, S] = x[S]
        return float((kernel(rows, points) @ coef).mean())

    for game, rest in ((left_out, None), (replaced, background)):
        values, base = shapley.exact(factors(kernel), coef, points, x, rest)
        expected, nobody = by_definition(game, d)
        np.testing.assert_allclose(values, expected, atol=1e-8)
        assert base == pytest.approx(nobody, abs=1e-8)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("d", [1, 3, 20, 150])
def test_additive(name, d):
    kernel = KERNELS[name]
    coef, points, x, background = problem(d, n=40, seed=d)
    points[::2, ::3] = x[::3]  # features on which x and a point agree
    score = float(kernel(x[None], points)[0] @ coef)
    for rest in (None, background, points):
        values, base = shapley.exact(factors(kernel), coef, points, x, rest)
        assert base + values.sum() == pytest.approx(score, abs=1e-8 * max(1.0, abs(score), np.abs(values).sum()))


def test_a_feature_that_says_nothing_is_worth_nothing():
    coef, points, x, _ = problem(6)
    points[:, 2] = x[2]
    assert shapley.exact(factors(onkel.RBF(1.0)), coef, points, x)[0][2] == 0.0
    assert shapley.exact(factors(onkel.Linear()), coef, points, x, x[None])[0].any() == False  # noqa: E712 - the background is x


def test_a_linear_model_is_its_weights():
    coef, points, x, background = problem(9)
    values, base = shapley.exact(factors(onkel.Linear()), coef, points, x)
    np.testing.assert_allclose(values, (coef @ points) * x, atol=1e-12)
    assert base == 0.0
    values, _ = shapley.exact(factors(onkel.Linear()), coef, points, x, background)
    np.testing.assert_allclose(values, (coef @ points) * (x - background.mean(axis=0)), atol=1e-12)


def test_the_algebra_of_terms():
    assert factors(onkel.Linear() * onkel.Linear()) == [Term((0.0, 0.0, 1.0))]
    assert factors(onkel.RBF(1.0) * (onkel.Linear() + onkel.Laplacian(2.0))) == [
        Term((0.0, 1.0), 0.5, 0.0),
        Term((1.0,), 0.5, 0.5),
    ]
    assert factors(onkel.Polynomial(2, 3.0, 1.0)) == [Term((1.0, 6.0, 9.0))]


@pytest.mark.parametrize("kernel", [onkel.Matern(1.0), onkel.kernel(lambda a, b: a[0] * b[0]), onkel.RBF(1.0) + onkel.Matern(1.0)])
def test_refused_where_a_kernel_does_not_split(kernel):
    with pytest.raises(TypeError, match=r"does not split into features.*sampled"):
        factors(kernel)


def test_extreme_widths():
    coef, points, x, _ = problem(4)
    for kernel in (onkel.RBF(1e-160), onkel.RBF(1e160), onkel.Laplacian(1e-300)):
        values, base = shapley.exact(factors(kernel), coef, points, x)
        assert np.isfinite(values).all()
        assert np.isfinite(base)
