"""Certificates: rows whose numbers are true, assumptions that are named when they fail, and words that can be read."""

import json

import numpy as np
import pytest

import onkel
from onkel import theory
from onkel.reasons.certify import certify
from onkel.reasons.convex import convex

KERNEL = onkel.RBF(1.0)
HINGE, SQRT = onkel.Hinge(1.0), onkel.InvSqrt(1.0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
Y = np.sign(X[:, 0] * X[:, 1] + 0.2 * RNG.normal(size=200))
SPEAKS = {  # which statements speak of which learner
    "norma": (onkel.norma(KERNEL, HINGE, eta=SQRT, lam=0.1), {"[K] Theorem 4"}),
    "constant": (onkel.norma(KERNEL, HINGE, eta=0.1, lam=0.01), {"[K] Theorem 2, as run"}),
    "no decay": (onkel.norma(KERNEL, HINGE, eta=0.1, lam=0.0), {"[K] Theorem 2, as run", "NORMA 2001, Theorem 1"}),
    "falling": (onkel.norma(KERNEL, HINGE, eta=SQRT, lam=0.0), {"NORMA 2001, Theorem 2"}),
    "window": (onkel.norma(KERNEL, HINGE, eta=0.1, lam=0.1, window=40), {"[K] Proposition 1"}),
    "perceptron": (onkel.perceptron(KERNEL), {"[V] Theorem 1", "NORMA 2001, Theorem 1"}),
    "ilk": (onkel.ilk(KERNEL, HINGE, eta=SQRT, lam=0.1), {"[C] Theorem 3, ILK"}),
    "silk": (onkel.silk(KERNEL, HINGE, eta=SQRT, lam=0.1, budget=20), {"[C] Theorem 3, SILK as run"}),
    "offset": (onkel.norma(KERNEL, HINGE, eta=SQRT, lam=0.1, offset=True), set()),
    "adaptive": (onkel.svmd(KERNEL, HINGE), set()),
    "alma": (onkel.alma(KERNEL), set()),
    "merge": (onkel.silk(KERNEL, HINGE, eta=SQRT, lam=0.1, budget=20, drop="merge"), set()),
}


@pytest.mark.parametrize("name", SPEAKS)
def test_what_speaks_of_which_run(name):
    learner, expected = SPEAKS[name]
    certificate = certify(learner, X, Y)
    assert {row.name for row in certificate.rows if row.holds is not None} == expected
    assert all(row.holds for row in certificate.rows if row.holds is not None)
    state, trace = learner.learn(learner.init(), X, Y)
    assert certificate.mistakes == trace.mistake.sum()
    assert certificate.cumulative_loss == trace.loss.sum()
    np.testing.assert_array_equal(certificate.state.coef, state.coef)
    text = str(certificate)
    for row in certificate.rows:
        assert row.name in text
        assert row.failed or row.holds is None or f"{row.measured:.4g}" in text
        assert all(reason in text for reason in row.failed)
    again = json.loads(json.dumps(certificate.to_dict()))
    assert [row["name"] for row in again["rows"]] == [row.name for row in certificate.rows]


def test_regret_from_the_definitions():
    learner = SPEAKS["norma"][0]
    row = certify(learner, X, Y)["[K] Theorem 4"]
    state, risks = learner.init(), []
    for x, y in zip(X, Y):
        f = float(learner.score(state, x[None])[0])
        norm = state.coef @ KERNEL(state.points, state.points) @ state.coef if state.size else 0.0
        risks.append(max(0.0, 1 - y * f) + 0.05 * norm)
        state, _ = learner.learn(state, x[None], [y])
    from onkel.reasons.comparators import batch

    g = batch(KERNEL, convex(HINGE), X, Y, lam=0.1)
    assert row.measured == pytest.approx(sum(risks) - 200 * g.risk, abs=1e-6)
    assert row.bound == theory.norma_regret(1.0, 0.1)(200)
    assert row.ratio == row.measured / row.bound
    assert len(row.path[0]) == len(row.path[1]) == 200
    assert (row.path[0] <= row.path[1]).all()  # the theorem holds at every t


def test_assumptions_are_named():
    certificate = certify(onkel.norma(KERNEL, onkel.Square(), eta=0.3, lam=0.1, budget=10), X, Y)
    failed = certificate["[K] Theorem 4"].failed
    assert {"a loss of bounded slope", "steps eta/sqrt(t)", "every term is kept"} <= set(failed)
    assert certificate["[K] Theorem 4"].bound is None
    labels = onkel.silk(KERNEL, onkel.Structured(onkel.Labels.flat(3)), budget=10)
    certificate = certify(labels, X, (X[:, 0] > 0).astype(int))
    assert all(any("one score" in reason for reason in row.failed) for row in certificate.rows)
    assert "0 mistakes" not in str(certificate)
    with pytest.raises(KeyError, match="the rows are"):
        certificate["[K] Theorem 9"]


def test_the_recommended_settings_keep_their_promise():
    first = certify(SPEAKS["no decay"][0], X, Y)
    found = first.recommended["[K] Theorem 3"]
    learner = onkel.norma(KERNEL, onkel.Hinge(found.rho), eta=found.eta, lam=found.lam)
    row = certify(learner, X, Y, comparator=first.comparators[0])["[K] Theorem 3"]  # the g for which they were recommended
    assert row.bound == pytest.approx(found.bound, rel=1e-9)
    assert row.holds
    assert learner.learn(learner.init(), X, Y)[1].mistake.sum() <= found.bound


def test_comparators_of_ones_own():
    learner = SPEAKS["norma"][0]
    best, zero = certify(learner, X, Y), certify(learner, X, Y, comparator="zero")
    assert zero["[K] Theorem 4"].holds
    assert zero["[K] Theorem 4"].measured <= best["[K] Theorem 4"].measured
    given = certify(learner, X, Y, comparator=best.comparators[0])
    assert given["[K] Theorem 4"].measured == best["[K] Theorem 4"].measured
    with pytest.raises(ValueError, match="'batch', 'zero'"):
        certify(learner, X, Y, comparator="svm")
    with pytest.raises(ValueError, match="delta"):
        certify(learner, X, Y, delta=0.0)


def test_held_out_examples():
    rng = np.random.default_rng(1)
    fresh = rng.normal(size=(300, 2))
    targets = np.sign(fresh[:, 0] * fresh[:, 1])
    certificate = certify(SPEAKS["norma"][0], X, Y, held_out=(fresh, targets))
    assert certificate["[K] Corollary 5"].holds
    assert set(certificate.held_out) == {"average", "last"}
    assert certify(SPEAKS["norma"][0], X, Y)["[K] Corollary 5"].holds is None  # nothing to hold it against
    learner, state = SPEAKS["norma"][0], certificate.state
    last = np.maximum(0, 1 - targets * learner.score(state, fresh)).mean()
    assert certificate.held_out["last"] == pytest.approx(last)


def test_no_promise_where_the_paper_has_none():
    certificate = certify(SPEAKS["silk"][0], X, Y)
    printed = certify(SPEAKS["ilk"][0], X, Y)["[C] Theorem 2"], certificate["[C] Theorem 3, SILK as printed"]
    for row in printed:
        assert row.holds is None
        assert row.bound is not None
    assert "no promise" in str(certificate)
    assert certificate.budget_error > 0


def test_the_printed_bound_of_silk_is_broken_by_a_long_stream():
    """Two places far apart, a budget of one: the other place is never learned, so the regret grows like m."""
    m = 60_000
    places = np.array([[0.0], [50.0]])
    X, y = places[np.arange(m) % 2], np.where(np.arange(m) % 2, 1.0, -1.0)
    learner = onkel.silk(KERNEL, HINGE, eta=onkel.InvSqrt(0.63), lam=0.5, budget=1)
    certificate = certify(learner, X, y)
    assert certificate["[C] Theorem 3, SILK as printed"].ratio > 1
    assert certificate["[C] Theorem 3, SILK as run"].holds


def test_figures():
    pytest.importorskip("matplotlib")
    figure = certify(SPEAKS["norma"][0], X, Y).plot()
    assert len(figure.axes) == 1
    assert figure.axes[0].get_title(loc="left") == "[K] Theorem 4"
