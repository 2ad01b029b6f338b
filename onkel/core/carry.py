"""A state that goes on with another learner."""

from __future__ import annotations

import numpy as np

from onkel.core.checks import check_state
from onkel.core.drive import gram_layers, laid_out
from onkel.core.learner import Learner
from onkel.core.loop import layout as at
from onkel.core.shrink import Terms, kernel_values, pack, shrink, terms_of
from onkel.core.state import State


def carry(state: State, old: Learner, new: Learner) -> State:
    """The state of ``old`` as one that ``new`` can go on with: another budget, rule or step, the same kernel and labels.

    What is more than the new budget goes by the new rule.  t, the offset, the ids and the type of numbers stay.  An adaptive step
    keeps its size and trace where ``old`` has an adaptive step as well, else both start anew; so does theta, unless
    both learners move it (nu).  The given state stays as it was.

    >>> import numpy as np, onkel
    >>> X = np.random.default_rng(0).normal(size=(200, 2)); y = np.sign(X[:, 0] * X[:, 1])
    >>> large = onkel.silk(onkel.RBF(1.0), onkel.Hinge(), budget=50)
    >>> small = onkel.silk(onkel.RBF(1.0), onkel.Hinge(), budget=20, drop="merge")
    >>> state, _ = large.learn(large.init(), X, y)
    >>> onkel.carry(state, large, small)
    State(t=200, size=20)
    """
    for name, one in (("old", old), ("new", new)):
        if not isinstance(one, Learner):
            raise TypeError(f"carry: {name} must be a learner, as onkel.silk and its like make them; got {one!r:.80}")
    if not isinstance(state, State):
        raise TypeError(f"carry: state must be a State, as learner.learn returns it; got {state!r:.80}")
    check_state(state, old.made_for)
    _check_meaning(state, old, new)
    fits = state.size <= new.budget.limit()
    if fits and old.made_for == new.made_for and gram_layers(old) == gram_layers(new):
        carried = state.copy()
    else:
        carried = _anew(state, old, new, fits)
    if old != new:
        carried.made_for = new.made_for
        if not (old.nu is not None and new.nu is not None) and not (old.step.kind == new.step.kind == "ALMA"):
            carried.num[at.THETA] = new.init().num[at.THETA]
    return carried


def _anew(state: State, old: Learner, new: Learner, fits: bool) -> State:
    carried = new.init()
    both = old.step.adaptive and new.step.adaptive
    vectors = (at.B, at.ETA_B, at.V_B) if both else (at.B,)
    for cell in (at.T, at.THETA, at.COUNT, at.N2, *((at.ETA, at.ETA_THETA, at.V_THETA) if both else ())):
        carried.num[cell] = state.num[cell]
    for row in vectors:
        part = slice(at.NUMBERS + row * state.m, at.NUMBERS + (row + 1) * state.m)
        carried.num[part] = state.num[part]
    carried.known = state.known
    if len(state.slots):
        terms = terms_of(state)
        coef = np.zeros((len(terms.born), carried.base))  # a trace that is not there is zero
        both_have = min(state.base, carried.base)
        coef[:, :both_have] = terms.coef[:, :both_have]
        wanted = fits and gram_layers(new) > 0
        K = kernel_values(new.kernel, terms.points) if wanted else None
        pack(new, carried, Terms(terms.points, coef, terms.born), K)
        if not fits:
            shrink(new, carried)
        laid_out(new, carried)
    return carried


def _check_meaning(state: State, old: Learner, new: Learner) -> None:
    wrong = None
    if old.made_for["kernel"] != new.made_for["kernel"]:
        wrong = f"the kernel: coefficients of {old.kernel!r:.60} mean nothing to {new.kernel!r:.60}"
    elif old.loss.targets != new.loss.targets or old.loss.labelled != new.loss.labelled:
        wrong = f"what is learned: {type(old.loss).__name__} and {type(new.loss).__name__} have different kinds of targets"
    elif not old.scalar and old.loss.labels != new.loss.labels:
        wrong = "the labels: their number, costs or label kernel differ"
    elif new.step.kind == "ALMA" and old.step.kind != "ALMA":
        wrong = "the step: Alma counts its updates and keeps |f| at most 1, which other steps do not"
    elif old.offset and not new.offset and state.num[at.NUMBERS : at.NUMBERS + state.m].any():
        wrong = "the offset: the state has one that the new learner would add and never move; take offset=True"
    if wrong is not None:
        raise ValueError(f"carry: the two learners must agree on {wrong}")
