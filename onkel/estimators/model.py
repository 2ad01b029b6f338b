"""Learners at work on one stream: what the scikit-learn and River doors share.

A ``Plan`` says which learner is wanted.  A ``Model`` runs it: it settles gamma="scale" on the first examples, takes in new
classes when they come, calibrates on the scores before each update, and answers a drift detector.  Everything that changes
stands in the model, so ``copy`` is a snapshot.  Nothing here depends on how a stream is cut into blocks.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.core import single
from onkel.core.checks import block_of
from onkel.core.drive import Trace, advance, score_block
from onkel.core.learner import Learner
from onkel.core.machine.calls import close
from onkel.core.machine.copies import ONE_AT_A_TIME, together
from onkel.core.points.dense import Array
from onkel.core.points.missing import with_mask
from onkel.core.state import State
from onkel.estimators import calibration
from onkel.estimators.drift import AHEAD, Watch, acted, forgetful
from onkel.estimators.examples import Encoded, StreamTrace, part, rows, stacked
from onkel.estimators.plan import Plan, spread_gamma, spread_of
from onkel.estimators.reshape import grow_features, grow_labels
from onkel.estimators.warmup import MARKS, SETTLE, WarmUp
from onkel.saved.states import check

BOUND = ("take", "look")  # entry points that belong to this process
KEPT = ("classes", "gamma", "unit", "width", "hurry", "cells", "state")  # what a file holds of a model, beside its first examples


class Member(NamedTuple):
    """A learner, and how far it has come."""

    learner: Learner
    state: State


class Model:
    """Learners and states of one stream, with what stands around them.  The first member makes the predictions."""

    members: tuple[Member, ...]
    watch: Watch | None
    take: Any = None  # learn(x, y) -> code, while the short way is open
    look: Any = None  # the class's code, or the score

    def __init__(self, plan: Plan, classes: list[Any] | None = None):
        self.plan = plan
        self.declared = list(classes or [])
        self.first: WarmUp | None = WarmUp() if plan.waits else None
        self.gamma: float | None = None
        self.unit = 1.0  # targets are learned divided by it
        self.width = 0
        self._start()

    def _start(self) -> None:
        """f = 0, nothing calibrated, the classes that were declared."""
        self.classes = list(self.declared)
        self.code = {label: float(i) for i, label in enumerate(self.classes)}
        self.calibration, self.cells = self.plan.calibration, calibration.fresh()
        self.watch = None if self.plan.given.drift is None else Watch(self.plan.given.drift)
        learners = self.plan.learners(self.gamma, self.width, len(self.classes))
        self.members = tuple(Member(learner, learner.init()) for learner in learners)
        self.unbind()

    @property
    def learner(self) -> Learner:
        """The learner that predicts."""
        return self.members[0].learner

    @property
    def state(self) -> State:
        """Its state."""
        return self.members[0].state

    def _put(self, learner: Learner, state: State) -> None:
        self.members = (Member(learner, state), *self.members[1:])
        self.unbind()

    @property
    def hurry(self) -> int:
        """Examples left in which f forgets faster."""
        return 0 if self.watch is None else self.watch.left

    def copy(self) -> Model:
        """Everything that changes is copied, what never changes is shared."""
        twin = Model.__new__(Model)
        twin.__dict__.update(self.__dict__)
        twin.take = twin.look = None
        twin.classes, twin.code = list(self.classes), dict(self.code)
        twin.cells, *arrays = together([self.cells, *(array for _, state in self.members for array in state.arrays)])
        parts = iter(arrays)
        twin.members = tuple(Member(learner, state.copy([next(parts) for _ in state.arrays])) for learner, state in self.members)
        twin.watch = None if self.watch is None else self.watch.copy()
        return twin

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        kept = 0 if self.first is None else self.first.nbytes
        return sum(state.nbytes for _, state in self.members) + self.cells.nbytes + kept

    # --- learning -------------------------------------------------------------------------------------------------------------

    def learn(self, X: Any, y: Any = None, weight: Any = None, settled: bool = False) -> StreamTrace:
        """Learn checked examples in place: y is Encoded labels, an array of reals, or None for novelty.

        ``settled``: an example that is still to be measured is learned here, too.
        """
        if hasattr(X, "shape") and X.shape[1] != self.width:
            self._meet(X.shape[1])
        if self.first is not None and not settled:
            return self._warm_up(X, y, weight)
        if isinstance(y, Encoded):
            if not all(name in self.code for name in y.names) and (starts := self._first_seen(y)):
                return self._extended(X, y, weight, starts)
            y = self.codes(y)
        if self.watch is not None:
            return self._watched(X, y, weight)
        block = block_of(with_mask(X) if self.plan.masks else X, self.learner.kernel, self.state)
        targets = self.learner.targets(y if self.unit == 1.0 else y / self.unit, len(block))
        trace = advance(self.learner, self.state, block, targets, weight)
        self.unbind()
        return self._told(trace, block, targets, weight)

    def _meet(self, width: int) -> None:
        """Rows of so many features."""
        if self.width:
            raise ValueError(f"X has {width} features, but this model was trained with {self.width}")
        self.width = width
        if not self.plan.measures_gamma:
            self._start()  # gamma="auto" asks for the number of features

    def _warm_up(self, X: Any, y: Any, weight: Any) -> StreamTrace:
        """Learn while something is to be settled on the first examples."""
        parts, done, n = [], 0, rows(X)
        while done < n:
            piece = slice(done, n if self.first is None else min(n, done + self.first.wanted))
            some, w = part(y, piece), part(weight, piece)
            parts.append((self.learn(X[piece], some, w, settled=True), self.classes))
            if self.first is not None:
                labels = [some.names[i] for i in some.index] if isinstance(y, Encoded) else [] if y is None else list(some)
                self.first = self.first.joined(X[piece], labels, w)
                if self.first.n in MARKS:
                    self._measure(self.first)
                if self.first.n >= SETTLE:
                    self.first = None
            done = piece.stop
        return self.join(parts)

    def _measure(self, first: WarmUp) -> None:
        """Settle what can be, and learn the examples so far anew; a detector has heard of them already."""
        if self.plan.measures_gamma:
            self.gamma = spread_gamma(first.X)
        if self.plan.measures_targets:
            self.unit = spread_of(first.y)
        watch = self.watch
        self._start()
        self.watch = None
        y = Encoded.of(first.y) if self.plan.task == "classes" else np.array(first.y, np.float64) if first.y else None
        self.learn(first.X, y, first.weight, settled=True)
        self.watch = watch

    def _first_seen(self, y: Encoded) -> list[tuple[int, int]]:
        """Where classes come for the first time, and which of the block's names they are."""
        new = [i for i, name in enumerate(y.names) if name not in self.code]
        return sorted((int(np.argmax(found)), i) for i in new if (found := y.index == i).any())

    def _extended(self, X: Any, y: Encoded, weight: Any, starts: list[tuple[int, int]]) -> StreamTrace:
        """Learn a block in which classes are new, cut where they first come."""
        parts = []
        if starts[0][0] > 0:
            starts = [(0, -1), *starts]
        for (start, i), (stop, _) in zip(starts, [*starts[1:], (len(y.index), -1)]):
            if i >= 0:
                self.add_class(y.names[i])
            piece = slice(start, stop)
            parts.append((self.learn(X[piece], part(y, piece), part(weight, piece), settled=True), self.classes))
        return self.join(parts)

    def codes(self, y: Encoded) -> NDArray[np.float64]:
        """The numbers under which the loop knows these classes; -1 for one that is new."""
        return np.array([self.code.get(name, -1) for name in y.names], np.float64)[y.index]

    def add_class(self, label: Any) -> None:
        """One more class, in its place if the classes can be sorted, else behind the others."""
        if self.plan.labels is not None:
            raise ValueError(f"class {label!r} is not in labels; they know {_some(self.classes)}")
        try:
            position = bisect_left(self.classes, label)
        except TypeError:
            position = len(self.classes)
        self.classes = [*self.classes[:position], label, *self.classes[position:]]
        self.code = {name: float(i) for i, name in enumerate(self.classes)}
        if len(self.classes) > 1:
            learner = replace(self.learner, loss=self.plan.loss_over(len(self.classes)))
            self._put(learner, grow_labels(self.state, learner, position))

    def grow(self, width: int) -> None:
        """More features: the points so far have 0 there, or nothing where missing values are left out."""
        if self.first is not None:
            self.first = self.first.widened(width, np.nan if self.plan.masks else 0.0)
        wide = 2 * width if self.plan.masks else width
        self.members = tuple(Member(f, grow_features(state, wide) if state.width else state) for f, state in self.members)
        self.width = width
        self.unbind()

    def _watched(self, X: Any, y: Any, weight: Any) -> StreamTrace:
        """Learn beside a detector: ahead up to the example, if any, at which it speaks of a rise; act, and go on from there."""
        assert self.watch is not None
        block = block_of(with_mask(X) if self.plan.masks else X, self.learner.kernel, self.state)
        targets = self.learner.targets(y if self.unit == 1.0 else y / self.unit, len(block))
        parts, done, n = [], 0, len(block)
        while done < n:
            piece = slice(done, min(n, done + (self.watch.left or AHEAD)))
            before = None if piece.stop == done + 1 else self.copy()
            trace = self._piece(block, targets, weight, piece)
            spoke = self.watch.hear(self._signal(trace, targets[piece]))
            if 0 <= spoke < len(trace.loss) - 1:
                assert before is not None
                self.members, self.cells = before.members, before.cells
                piece = slice(done, done + spoke + 1)
                trace = self._piece(block, targets, weight, piece)
            self.watch.left = max(0, self.watch.left - len(trace.loss))
            if spoke >= 0:
                trace.drift[spoke] = True
                self._put(self.learner, acted(self.plan.given.on_drift, self.watch, self.learner, self.state))
            parts.append(trace)
            done = piece.stop
        return stacked(parts)

    def _piece(self, block: Any, targets: Array, weight: Any, piece: slice) -> StreamTrace:
        learner, w = forgetful(self.learner, self.state) if self.hurry else self.learner, part(weight, piece)
        trace = advance(learner, self.state, block.take(piece), targets[piece], w)
        self.unbind()
        return self._told(trace, block.take(piece), targets[piece], w)

    def _signal(self, trace: StreamTrace, targets: Array) -> list[Any]:
        """What a detector hears: 1 for a mistake or an alert, else 0; of real targets the absolute error."""
        if self.plan.task == "reals":
            return np.abs(targets * self.unit - trace.scores).tolist()
        return trace.mistake.astype(int).tolist()

    def _told(self, trace: Trace, block: Any, targets: Array, weight: Any) -> StreamTrace:
        """Calibrate on what has happened; the trace in the terms of the door."""
        scores, loss, mistake, *others = trace
        if len(self.members) > 1:
            learner, state = self.members[1]
            typical = advance(learner, state, block, np.abs(targets - scores), weight).scores
            self.calibration.follow_block(self.cells, scores, targets, weight, typical)
        elif self.calibration is not None:
            told = self.calibration.follow_block(self.cells, scores, targets, weight)
            mistake = mistake if told is None else told
        if self.unit != 1.0:
            scores, loss = scores * self.unit, loss * self.unit**2
        return StreamTrace(scores, loss, mistake, *others, np.zeros(len(loss), bool))

    def join(self, parts: list[tuple[StreamTrace, list[Any]]]) -> StreamTrace:
        """Traces one after the other; a class that was not known yet has score 0."""
        if self.plan.task != "classes":
            return stacked([trace for trace, _ in parts])
        wide = []
        for trace, classes in parts:
            scores = np.zeros((len(trace.loss), max(len(self.classes), 1)))
            scores[:, [int(self.code[name]) for name in classes]] = trace.scores
            wide.append(trace._replace(scores=scores))
        return stacked(wide)

    # --- one example at a time ------------------------------------------------------------------------------------------------

    def unbind(self) -> None:
        """Arrays have changed, or will: the short ways in are bound anew when they are next asked for."""
        for entry in (self.take, self.look):
            if entry is not None:
                close(entry)
        self.take = self.look = None

    def bind(self) -> bool:
        """Open the short ways in, if there is nothing to settle, to watch, to fill in or to make room for."""
        plan, (learner, state) = self.plan, self.members[0]
        if self.first is not None or self.watch is not None or len(self.members) > 1 or plan.masks or plan.given.budget is None:
            return False
        if not ONE_AT_A_TIME or getattr(plan.given, "class_weight", None) or not single.is_open(learner, state):
            return False
        self.take = single.learning(learner, state, self.calibration, self.cells)
        self.look = single.scoring(learner, state, best=plan.task == "classes")
        return True

    def learn_row(self, x: Any, y: float) -> bool:
        """Learn one row the short way, if it fits: an array of the model's dtype and width."""
        if self.take is None and not self.bind():
            return False
        code = self.take(x, y / self.unit)
        if code >= 0 or code == single.UNFIT:
            return bool(code >= 0)
        raise FloatingPointError(
            f"x = {x!r:.80} takes the model out of the range of finite numbers; nothing was changed. "
            "Scale the data, or take a smaller eta, or a kernel that does not overflow"
        )

    # --- scoring, keeping -------------------------------------------------------------------------------------------------------

    def typical_errors(self, X: Any) -> Any:
        """How large errors typically are at checked examples; None where they are taken to be alike."""
        if len(self.members) == 1:
            return None
        learner, state = self.members[1]
        return score_block(learner, state, block_of(with_mask(X) if self.plan.masks else X, learner.kernel, state))

    def score(self, X: Any) -> Array:
        """Scores of checked examples: (n,), or (n, m) over ``classes``."""
        block = block_of(with_mask(X) if self.plan.masks else X, self.learner.kernel, self.state)
        scores = score_block(self.learner, self.state, block)
        return scores if self.unit == 1.0 else scores * self.unit

    def __getstate__(self) -> dict[str, Any]:
        """Without what is bound to this process."""
        return {name: value for name, value in self.__dict__.items() if name not in BOUND}

    def __setstate__(self, parts: dict[str, Any]) -> None:
        self.__dict__.update(parts)
        self.cells = np.array(self.cells)  # joblib may have mapped a file that cannot be written
        self.unbind()
        calibration.check(self.cells)
        for learner, state in self.members:
            check(learner, state)

    def parts(self) -> dict[str, Any]:
        """As plain data, for files."""
        kept = {name: getattr(self, name) for name in (*KEPT, "declared")}
        kept["others"] = [state for _, state in self.members[1:]]
        return {**kept, "first": None if self.first is None else self.first.plain()}


def _some(names: list[Any]) -> str:
    return ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
