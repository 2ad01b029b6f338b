"""Whole or not at all: learning that leaves an estimator as it was when something goes wrong.

A block is learned on a copy of the model, which takes its place when the block is through.  A few examples are not worth a copy
of everything: they are learned in place, one by one, since the core takes an example whole or refuses it, and beside them goes a
note of what each is about to replace.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from onkel.core.learner import Learner
from onkel.core.loop import layout as at
from onkel.core.points.sparse import Sparse
from onkel.core.state import State
from onkel.estimators.examples import StreamTrace
from onkel.estimators.model import Model
from onkel.estimators.turns import turn

BLOCK = 8192  # rows between two moments at which Ctrl-C finds a whole model
FEW = 4  # rows that are learned in place
ONE_PLACE = ("oldest", "smallest", "merge")  # budget rules that replace one point and leave the kernel values of the others
KNOWN = ("n_features_in_", "feature_names_in_", "model_", "trace_")  # what learning changes of an estimator


class Attempt:
    """``with Attempt(estimator) as attempt``: what is learned inside stays if nothing is raised.

    Ctrl-C leaves the blocks that are through; any other error leaves nothing.
    """

    def __init__(self, estimator: Any):
        self.estimator, self.turn = estimator, turn(estimator)
        self.before: dict[str, Any] = {}
        self.note: Note | None = None
        self.traces: list[tuple[StreamTrace, list[Any]]] = []

    def __enter__(self) -> Self:
        self.turn.acquire()
        known = self.estimator.__dict__
        self.before = {name: known[name] for name in KNOWN if name in known}
        if self.estimator.model_ is not None:
            self.estimator.model_.unbind()  # the short ways wait for their turn
        return self

    def __exit__(self, kind: Any, error: Any, where: Any) -> None:
        try:
            if kind is not None:
                self._undo(kind)
        finally:
            self.turn.release()

    def _undo(self, kind: Any) -> None:
        if self.note is not None:
            self.note.restore()
        now = self.estimator.model_
        if not issubclass(kind, Exception) and now is not None and now is not self.before.get("model_"):
            if self.traces:
                self.done()
            return
        for name in KNOWN:
            if name not in self.before:
                self.estimator.__dict__.pop(name, None)
        self.estimator.__dict__.update(self.before)

    def steps(self, n: int, classes: list[Any] | None = None) -> Iterator[tuple[Model, slice]]:
        """For n examples: which of them are next, and the model that is to learn them now."""
        model = self.estimator.model_
        if model is not None and n <= FEW:
            self.note = Note(model)
            for i in range(n):
                self.note.take()
                yield model, slice(i, i + 1)
            return
        if model is None and not n and not classes:
            return  # nothing has come, nothing was announced
        work = Model(self.estimator.plan(), classes) if model is None else model
        for start in range(0, n, BLOCK):
            if work is self.estimator.model_:
                work = work.copy()
            yield work, slice(start, min(n, start + BLOCK))
            self.estimator.model_ = work
        self.estimator.model_ = work

    def told(self, model: Model, trace: StreamTrace) -> None:
        """What happened in one of the steps."""
        self.traces.append((trace, model.classes))

    def done(self) -> None:
        """All steps went well."""
        model = self.estimator.model_
        if model is not None:
            self.estimator.trace_ = model.join(self.traces)


class Note:
    """What a model is about to lose."""

    def __init__(self, model: Model):
        self.model, self.parts, self.cells = model, dict(vars(model)), model.cells.copy()
        self.states = [_Kept(learner, state) for learner, state in model.members]
        self.watch = None if model.watch is None else model.watch.copy()

    def take(self) -> None:
        """Note the place that the next example will take."""
        for kept, (_, state) in zip(self.states, self.model.members):
            if kept.state is state:  # a state that has grown since is another one
                kept.take()

    def restore(self) -> None:
        """Put everything back."""
        vars(self.model).clear()
        vars(self.model).update(self.parts)
        self.model.watch = self.watch
        self.model.cells[:] = self.cells
        for kept in self.states:
            kept.restore()


class _Kept:
    def __init__(self, learner: Learner, state: State):
        self.learner, self.state, self.parts = learner, state, dict(vars(state))
        one_place = learner.budget.drop in ONE_PLACE
        # of the slots the rows of coefficients, which any example may change
        self.front = slice(0, state.base + at.AUX) if one_place else slice(None)
        self.arrays = state.num.copy(), state.slots[self.front].copy(), state.born.copy()
        self.gram = None if one_place else state.gram.copy()
        if state.store is not None and (isinstance(state.store, Sparse) or not one_place):  # a heap may be packed at any time
            self.parts["store"] = state.store.copy()
        self.places: list[tuple[int, Any, Any, Any]] = []

    def take(self) -> None:
        state = self.state
        slot = next_place(self.learner, state)
        if slot >= state.slots.shape[1]:  # there will be more room, in other arrays
            return
        point = state.slots[:, slot].copy() if state.store is None else state.store.take(np.array([slot]))
        gram = None
        if self.gram is None and len(state.gram):
            gram = state.gram[:, slot].copy(), state.gram[:, :, slot].copy()
        self.places.append((slot, point, gram, state.slots))

    def restore(self) -> None:
        state = self.state
        vars(state).update(self.parts)
        for slot, point, gram, slots in reversed(self.places):
            if slots is not state.slots:
                continue
            if state.store is None:
                state.slots[:, slot] = point
            elif not isinstance(state.store, Sparse):
                state.store.put(np.array([slot]), point, np.array([0]))
            if gram is not None:
                state.gram[:, slot], state.gram[:, :, slot] = gram
        state.num[:], state.slots[self.front], state.born[:] = self.arrays
        if self.gram is not None:
            state.gram[:] = self.gram


def next_place(learner: Learner, state: State) -> int:
    """The slot that the next new point will take, if it is kept at all."""
    n, size = state.size, learner.budget.size
    if learner.budget.drop == "oldest":
        return (int(state.num[at.HEAD]) + n) % max(state.slots.shape[1], 1)
    if size is None or n < size:
        return n
    strength = state.slots[state.base + at.MAG, :n]
    ties = np.flatnonzero(strength == strength.min())
    return int(ties[state.born[ties].argmin()])
