"""A state that goes on with another learner of the same kernel and labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import onkel
from onkel import RBF, Adaptive, Alma, Budget, Explicit, Hinge, Implicit, Logistic, Square, Structured
from onkel.core.loop import layout as at
from tests.core.support import as_bytes
from tests.core.test_mix import LEARNERS, NEW, RELATED, ROUNDING, distance, every_learner, gram_of, reduced_by_hand, stream, three

RULES = [name for name in LEARNERS if name not in ("labels", "related")]
STEPS = {"explicit": Explicit(0.3, 0.05), "implicit": Implicit(0.5, 0.1), "adaptive": Adaptive(0.2, 0.05, mu=0.3)}


@every_learner
def test_equal_learners_give_an_equal_copy_to_the_bit(learner):
    state = three(learner)[2]
    carried = onkel.carry(state, learner, replace(learner))
    assert as_bytes(carried) == as_bytes(state)
    assert carried is not state


@pytest.mark.parametrize("source", RULES)
@pytest.mark.parametrize("target", RULES)
def test_every_rule_into_every_other(source, target):
    """Reduced by the new rule, or exact where all points fit; learning and files go on."""
    old = replace(LEARNERS[source], kernel=LEARNERS[target].kernel)
    new = replace(LEARNERS[target], step=LEARNERS[source].step, offset=True, nu=None)
    old = replace(old, nu=None)
    state = old.learn(old.init(), *stream(old, 70))[0]
    before = as_bytes(state)
    carried = onkel.carry(state, old, new)
    assert as_bytes(state) == before
    assert carried.t == state.t
    assert carried.offset == state.offset
    assert carried.size <= new.budget.limit()
    if state.size <= new.budget.limit():
        np.testing.assert_allclose(new.score(carried, NEW), old.score(state, NEW), **ROUNDING)
        np.testing.assert_allclose(carried.trace_coef, state.trace_coef, **ROUNDING)
    elif new.budget.size is not None:
        live, coef = reduced_by_hand(new, state, new.budget.size)
        np.testing.assert_array_equal(carried.points, state.points[live])
        np.testing.assert_allclose(carried.coef, coef[:, 0], rtol=1e-6, atol=1e-6)
        assert distance(new, state, carried) > 0
    on, _ = new.learn(carried, *stream(new, 30, seed=3))
    assert on.t == 100
    assert np.isfinite(on.coef).all()


def naive(points, coef, X, y, step, size):
    """The implicit hinge step with the smallest coefficient going, from any expansion."""
    points, coef = [*points], [*coef]
    told = []
    for x, t in zip(X, y, strict=True):
        k = np.exp(-np.sum((np.array(points) - x) ** 2, axis=1) / 2)
        f = float(k @ coef)
        told.append(f)
        shrink = 1.0 / (1.0 + step.eta * step.lam)
        move = min(max((1.0 - shrink * t * f) / shrink, 0.0), step.eta * step.C) * shrink
        coef = [shrink * a for a in coef]
        if move > 0:
            points.append(x)
            coef.append(t * move)
            if len(coef) > size:
                j = int(np.argmin(np.abs(coef)))
                del points[j], coef[j]
    return np.array(told), np.array(points), np.array(coef)


@pytest.mark.parametrize("size", [30, 12, 5])
def test_goes_on_as_a_naive_run_from_there(size):
    old = onkel.Learner(RBF(1.0), Hinge(), Explicit(0.3, 0.05), Budget(20))
    new = onkel.Learner(RBF(1.0), Hinge(), Implicit(0.5, 0.1), Budget(size, "smallest"))
    state = old.learn(old.init(), *stream(old, 50))[0]
    kept = np.sort(np.argsort(np.abs(state.coef), kind="stable")[-size:])
    X, y = stream(new, 60, seed=4)
    told, points, coef = naive(state.points[kept], state.coef[kept], X, y, new.step, size)
    on, trace = new.learn(onkel.carry(state, old, new), X, y)
    np.testing.assert_allclose(trace.scores, told, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(on.points, points)
    np.testing.assert_allclose(on.coef, coef, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("target", STEPS.values(), ids=STEPS.keys())
@pytest.mark.parametrize("source", STEPS.values(), ids=STEPS.keys())
def test_steps(source, target):
    old = onkel.Learner(RBF(1.0), Hinge(), source, Budget(12, "merge"))
    new = replace(old, step=target)
    state = old.learn(old.init(), *stream(old, 50))[0]
    carried = onkel.carry(state, old, new)
    np.testing.assert_allclose(carried.coef, state.coef, **ROUNDING)
    if source.adaptive and target.adaptive:
        assert as_bytes(carried) == as_bytes(state)
    elif target.adaptive:
        f, Z = state.coef, state.points
        K = gram_of(Z)
        assert carried.num[at.N2] == pytest.approx(f @ K @ f, rel=1e-12)
        assert carried.num[at.PI] == 0.0
        assert carried.num[at.ETA] == target.eta
        assert not carried.trace_coef.any()
    on, _ = new.learn(carried, *stream(new, 30, seed=3))
    assert on.t == 80


def test_a_step_size_alone_changes_nothing_else():
    old = LEARNERS["merge"]
    new = replace(old, step=Implicit(0.1, 0.3))
    state = three(old)[0]
    more = stream(old, 30, seed=3)
    assert as_bytes(new.learn(onkel.carry(state, old, new), *more)[0]) == as_bytes(new.learn(state, *more)[0])


def test_type_of_numbers_ids_and_labels_stay():
    old = LEARNERS["related"]
    new = replace(old, budget=Budget(5, "merge"))
    X, y = stream(old, 40)
    state, _ = old.learn(old.init(), X.astype(np.float32), y, ids=list(range(40)))
    carried = onkel.carry(state, old, new)
    assert carried.slots.dtype == np.float32
    assert carried.size == 5
    assert carried.ids == [i for i, x in zip(state.ids, state.points, strict=True) if (x == carried.points).all(1).any()]


def test_a_large_mean_is_made_to_fit():
    learner = LEARNERS["merge"]
    mixed, _ = onkel.mix(learner, three(learner))
    assert onkel.carry(mixed, learner, learner).size == 12
    wide = replace(learner, budget=Budget(100, "merge"))
    carried = onkel.carry(mixed, learner, wide)
    np.testing.assert_allclose(wide.score(carried, NEW), learner.score(mixed, NEW), **ROUNDING)


def test_saved_and_loaded(tmp_path):
    new = LEARNERS["project"]
    old = replace(LEARNERS["oldest"], kernel=new.kernel)
    carried = onkel.carry(three(old)[0], old, new)
    onkel.save((new, carried), tmp_path / "m.onkel")
    more = stream(new, 30, seed=3)
    again = onkel.load(tmp_path / "m.onkel")[1]
    assert as_bytes(new.learn(again, *more)[0]) == as_bytes(new.learn(carried, *more)[0])


def test_before_the_first_example():
    old, new = LEARNERS["oldest"], LEARNERS["adaptive"]
    assert as_bytes(onkel.carry(old.init(), old, new)) == as_bytes(new.init())


def test_what_has_no_meaning_is_refused():
    old = LEARNERS["merge"]
    state = three(old)[0]
    cases = {
        "the kernel": replace(old, kernel=RBF(2.0)),
        "what is learned": replace(old, loss=Square()),
        "the step: Alma": replace(old, step=Alma()),
    }
    for reason, new in cases.items():
        with pytest.raises(ValueError, match=f"must agree on {reason}"):
            onkel.carry(state, old, new)
    flat = LEARNERS["labels"]
    with pytest.raises(ValueError, match="the labels"):
        onkel.carry(three(flat)[0], flat, replace(flat, loss=Structured(RELATED)))
    moved = LEARNERS["smallest"]
    with pytest.raises(ValueError, match="take offset=True"):
        onkel.carry(three(moved)[0], moved, replace(moved, offset=False))
    with pytest.raises(ValueError, match="made by a learner of another budget"):
        onkel.carry(state, LEARNERS["oldest"], old)
    with pytest.raises(TypeError, match="new must be a learner"):
        onkel.carry(state, old, 3)
    with pytest.raises(TypeError, match="state must be a State"):
        onkel.carry(old, old, old)
    assert onkel.carry(state, old, replace(old, loss=Logistic())).size == 12  # the same targets, another loss
