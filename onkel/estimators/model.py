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
from onkel.core.drive import Trace, advance, score_block
from onkel.core.learner import Learner
from onkel.core.points.dense import Array
from onkel.core.points.missing import with_mask
from onkel.core.state import State
from onkel.estimators import calibration
from onkel.estimators.drift import AHEAD, Watch, acted, forgetful
from onkel.estimators.examples import Encoded, StreamTrace, last, part, rows, stacked
from onkel.estimators.plan import Plan, spread_gamma
from onkel.estimators.reshape import grow_features, grow_labels
from onkel.estimators.warmup import SETTLE, WarmUp
from onkel.saved.states import check

BOUND = ("take", "look")  # entry points that belong to this process
KEPT = ("classes", "gamma", "width", "hurry", "cells", "state")  # what a file holds of a model, beside its first examples


class Member(NamedTuple):
    """A learner, and how far it has come."""

    learner: Learner
    state: State


class Model:
    """Learners and states of one stream, with what stands around them.  The first member makes the predictions."""

    members: tuple[Member, ...]
    watch: Watch | None

    def __init__(self, plan: Plan, classes: list[Any] | None = None):
        self.plan = plan
        self.declared = list(classes or [])
        self.first: WarmUp | None = WarmUp() if plan.waits else None
        self.gamma: float | None = None
        self.width = 0
        self._start()

    def _start(self) -> None:
        """f = 0, nothing calibrated, the classes that were declared."""
        self.classes = list(self.declared)
        self.code = {label: float(i) for i, label in enumerate(self.classes)}
        self.cells = calibration.fresh()
        self.watch = None if self.plan.given.drift is None else Watch(self.plan.given.drift)
        learner = self.plan.learner(self.gamma, self.width, len(self.classes))
        self.members = (Member(learner, learner.init()),)
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
        twin.classes, twin.code, twin.cells = list(self.classes), dict(self.code), self.cells.copy()
        twin.members = tuple(Member(learner, state.copy()) for learner, state in self.members)
        twin.watch = None if self.watch is None else self.watch.copy()
        twin.unbind()
        return twin

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        kept = 0 if self.first is None else self.first.nbytes
        return sum(state.nbytes for _, state in self.members) + self.cells.nbytes + kept

    # --- learning -------------------------------------------------------------------------------------------------------------

    def learn(self, X: Any, y: Any = None, weight: Any = None) -> StreamTrace:
        """Learn checked examples in place: y is Encoded labels, an array of reals, or None for novelty."""
        n = rows(X)
        if hasattr(X, "shape"):
            if not self.width:
                self.width = X.shape[1]
                if not self.plan.waits:
                    self._start()  # gamma="auto" asks for the number of features
            elif X.shape[1] != self.width:
                raise ValueError(f"X has {X.shape[1]} features, but this model was trained with {self.width}")
        if self.first is None:
            return self._advance(X, y, weight)
        front = slice(0, min(n, SETTLE - self.first.n))
        back = slice(front.stop, n)
        labels = [y.names[i] for i in y.index[front]] if isinstance(y, Encoded) else [] if y is None else list(y[front])
        self.first = self.first.joined(X[front], labels, None if weight is None else weight[front])
        trace, known = last(self._begin_again(), front.stop), list(self.classes)
        if self.first.n >= SETTLE:
            self.first = None
            if front.stop < n:
                rest = self._advance(X[back], part(y, back), None if weight is None else weight[back])
                trace = self.join([(trace, known), (rest, self.classes)])
        return trace

    def _begin_again(self) -> StreamTrace:
        """Relearn the first examples with the gamma that they ask for."""
        first = self.first
        assert first is not None
        self.gamma = spread_gamma(first.X)
        self._start()
        y = Encoded.of(first.y) if self.plan.task == "classes" else np.array(first.y, np.float64) if first.y else None
        return self._advance(first.X, y, first.weight)

    def _advance(self, X: Any, y: Any, weight: Any) -> StreamTrace:
        """Learn, cutting the block where a class is seen for the first time."""
        if not isinstance(y, Encoded):
            return self._run(X, y, weight)
        n = len(y.index)
        new = [i for i, name in enumerate(y.names) if name not in self.code]
        starts = sorted((int(np.argmax(found)), i) for i in new if (found := y.index == i).any())
        if not starts:
            return self._run(X, self.codes(y), weight)
        parts = []
        if starts[0][0] > 0:
            starts.insert(0, (0, -1))
        for (start, i), (stop, _) in zip(starts, [*starts[1:], (n, -1)]):
            if i >= 0:
                self.add_class(y.names[i])
            piece = slice(start, stop)
            trace = self._run(X[piece], self.codes(part(y, piece)), None if weight is None else weight[piece])
            parts.append((trace, list(self.classes)))
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
        self.classes.insert(position, label)
        self.code = {name: float(i) for i, name in enumerate(self.classes)}
        if len(self.classes) > 1:
            learner = replace(self.learner, loss=self.plan.loss_over(len(self.classes)))
            self._put(learner, grow_labels(self.state, learner, position))

    def grow(self, width: int) -> None:
        """More features: the points so far have 0 there, or nothing where missing values are left out."""
        if self.first is not None:
            self.first = self.first.widened(width, np.nan if self.plan.masks else 0.0)
        if self.state.width:
            self._put(self.learner, grow_features(self.state, 2 * width if self.plan.masks else width))
        self.width = width

    def read(self, X: Any) -> Any:
        """Checked examples as a block for the learner."""
        return self.learner.read(with_mask(X) if self.plan.masks else X, self.state)

    def _run(self, X: Any, targets: Any, weight: Any) -> StreamTrace:
        """Learn examples of classes that are known."""
        block = self.read(X)
        y = self.learner.targets(targets, len(block))
        if self.watch is not None:
            return self._watched(block, y, weight)
        trace = advance(self.learner, self.state, block, y, weight)
        self.unbind()
        self._calibrate(trace, y, weight)
        return StreamTrace(*trace, np.zeros(len(block), bool))

    def _watched(self, block: Any, y: Array, weight: Any) -> StreamTrace:
        """The same beside a detector: learn ahead up to the example, if any, at which it speaks, act, and go on from there."""
        assert self.watch is not None
        parts, done = [], 0
        while done < len(block):
            piece = slice(done, min(len(block), done + (self.watch.left or AHEAD)))
            before = self.state.copy()
            trace = advance(self._forgetting(), self.state, block.take(piece), y[piece], part(weight, piece))
            spoke = self.watch.hear(self._signal(trace, y[piece]))
            if 0 <= spoke < len(trace.loss) - 1:
                self._put(self.learner, before)
                piece = slice(done, done + spoke + 1)
                trace = advance(self._forgetting(), before, block.take(piece), y[piece], part(weight, piece))
            self._calibrate(trace, y[piece], part(weight, piece))
            n = len(trace.loss)
            self.watch.left = max(0, self.watch.left - n)
            if spoke >= 0:
                self._put(self.learner, acted(self.plan.given.on_drift, self.watch, self.learner, self.state))
            parts.append(StreamTrace(*trace, np.arange(n) == spoke))
            done += n
        return stacked(parts)

    def _forgetting(self) -> Learner:
        return forgetful(self.learner, self.state) if self.hurry else self.learner

    def _signal(self, trace: Trace, y: Array) -> list[Any]:
        """What a detector hears: 1 for a mistake or an alert, else 0; of real targets the absolute error."""
        return np.abs(y - trace.scores).tolist() if self.plan.task == "reals" else trace.mistake.astype(int).tolist()

    def _calibrate(self, trace: Trace, y: Array, weight: Any) -> None:
        if self.plan.calibration is not None:
            self.plan.calibration.follow_block(self.cells, trace.scores, y, weight)

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
        """Arrays have changed: the short ways in are bound anew when they are next asked for."""
        self.take: Any = None
        self.look: Any = None  # the class's code, or the score

    def bind(self) -> bool:
        """Open the short ways in, if there is nothing to settle, to watch, to fill in or to make room for."""
        plan, (learner, state) = self.plan, self.members[0]
        if self.first is not None or self.watch is not None or plan.masks or plan.given.budget is None:
            return False
        if not single.is_open(learner, state):
            return False
        self.take = single.learning(learner, state, plan.calibration, self.cells)
        self.look = single.scoring(learner, state, best=plan.task == "classes")
        return True

    def learn_row(self, x: Any, y: float) -> bool:
        """Learn one row the short way, if it fits: an array of the model's dtype and width."""
        if self.take is None and not self.bind():
            return False
        code = self.take(x, y)
        if code >= 0 or code == single.UNFIT:
            return bool(code >= 0)
        raise FloatingPointError(
            f"x = {x!r:.80} takes the model out of the range of finite numbers; nothing was changed. "
            "Scale the data, or take a smaller eta, or a kernel that does not overflow"
        )

    def refuses_whole(self, y: Any) -> bool:
        """Whether one example can be learned in place: the core changes nothing when it refuses one."""
        known = not isinstance(y, Encoded) or all(name in self.code for name in y.names)
        return known and self.first is None and self.watch is None

    # --- scoring, keeping -------------------------------------------------------------------------------------------------------

    def score(self, X: Any) -> Array:
        """Scores of checked examples: (n,), or (n, m) over ``classes``."""
        return score_block(self.learner, self.state, self.read(X))

    def __getstate__(self) -> dict[str, Any]:
        """Without what is bound to this process."""
        return {name: value for name, value in self.__dict__.items() if name not in BOUND}

    def __setstate__(self, parts: dict[str, Any]) -> None:
        self.__dict__.update(parts)
        self.unbind()
        self.cells = np.array(self.cells)  # a pickle's arrays may be views of a file that is only read
        calibration.check(self.cells)
        for learner, state in self.members:
            check(learner, state)

    def parts(self) -> dict[str, Any]:
        """As plain data, for files."""
        kept = {name: getattr(self, name) for name in (*KEPT, "declared")}
        return {**kept, "first": None if self.first is None else self.first.plain()}


def _some(names: list[Any]) -> str:
    return ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
