"""A learner at work on one stream: what the scikit-learn and River doors share.

A ``Plan`` says which learner is wanted.  A ``Model`` runs it: it settles gamma="scale" on the first examples, takes in new
classes when they come, calibrates on the scores before each update, and answers a drift detector.  Everything that changes
stands in the model, so ``copy`` is a snapshot.  Nothing here depends on how a stream is cut into blocks.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numba import float64
from numpy.typing import NDArray

from onkel.core.drive import Trace, advance, score_block
from onkel.core.learner import Learner
from onkel.core.loop import layout, one_row
from onkel.core.machine.calls import ROW, packed, rows_like
from onkel.core.maths.steps import Adaptive
from onkel.core.maths.user_loss import User
from onkel.core.points.dense import Array
from onkel.core.points.read import is_sparse
from onkel.estimators import calibration
from onkel.estimators.missing import with_mask
from onkel.estimators.plan import Plan, spread_gamma
from onkel.estimators.reshape import grow_features, grow_labels, keep_newest

SETTLE = 100  # examples that settle gamma="scale"
WATCH = 256  # examples learned ahead of the drift detector, then taken back as far as need be
RECOVERY, SHRINK = 100, 0.03  # after a drift with action "forget": so many steps, in each of which f loses this share

BOUND = ("learner", "take", "look")  # what belongs to this process
KEPT = ("classes", "gamma", "width", "hurry", "cells", "state")  # what a file holds of a model, beside its first examples


class StreamTrace(NamedTuple):
    """A learner's trace, and where the drift detector spoke."""

    scores: Array
    loss: NDArray[np.float64]
    mistake: NDArray[np.bool_]
    eta: NDArray[np.float64]
    theta: NDArray[np.float64]
    size: NDArray[np.int64]
    drift: NDArray[np.bool_]


class Coded(NamedTuple):
    """Labels of a block: the distinct ones, and for each example which of them."""

    names: list[Any]
    index: NDArray[np.int64]

    @staticmethod
    def of(y: Any) -> Coded:
        """From any labels that can be keys of a dict."""
        names: dict[Any, int] = {}
        index = np.array([names.setdefault(label, len(names)) for label in y], np.int64)
        return Coded(list(names), index)


class First(NamedTuple):
    """The examples that are kept until gamma is settled."""

    X: Any = None
    y: list[Any] = []  # noqa: RUF012 - never changed in place
    weight: Any = None

    def joined(self, X: Any, y: list[Any], weight: Any) -> First:
        if self.X is None:
            return First(X, y, weight)
        if self.weight is not None or weight is not None:
            weight = np.concatenate([np.ones(rows(part)) if w is None else w for part, w in ((self.X, self.weight), (X, weight))])
        if is_sparse(X):
            from scipy.sparse import vstack

            return First(vstack([self.X, X], format="csr"), self.y + y, weight)
        return First(np.concatenate([self.X, X.astype(self.X.dtype, copy=False)]), self.y + y, weight)

    def plain(self) -> dict[str, Any]:
        """As plain data, for files."""
        X = self.X
        if is_sparse(X):
            X = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": list(X.shape)}
        return {"X": X, "y": self.y, "weight": self.weight}

    @staticmethod
    def of(plain: dict[str, Any]) -> First:
        X = plain["X"]
        if isinstance(X, dict):
            from scipy.sparse import csr_matrix

            X = csr_matrix((X["data"], X["indices"], X["indptr"]), shape=tuple(X["shape"]))
        return First(X, plain["y"], plain["weight"])


def rows(X: Any) -> int:
    return X.shape[0] if hasattr(X, "shape") else len(X)


class Model:
    """Learner and state of one stream, with what stands around them."""

    def __init__(self, plan: Plan, classes: list[Any] | None = None):
        self.plan = plan
        self.declared = list(classes or [])
        self.first: First | None = First() if plan.waits else None
        self.gamma: float | None = None
        self.width = 0
        self._start()

    def _start(self) -> None:
        """f = 0, nothing calibrated, the classes that were declared."""
        self.classes = list(self.declared)
        self.code = {label: float(i) for i, label in enumerate(self.classes)}
        self.cells = calibration.fresh()
        self.detector = copy.deepcopy(self.plan.drift)
        self.hurry = 0  # examples left in which f forgets faster
        self.learner = self.plan.learner(self.gamma, self.width, len(self.classes))
        self.state = self.learner.init()
        self._ready()

    def copy(self) -> Model:
        """Everything that changes is copied, what never changes is shared."""
        twin = Model.__new__(Model)
        twin.__dict__.update(self.__dict__)
        twin.classes, twin.code = list(self.classes), dict(self.code)
        twin.cells, twin.state, twin.detector = self.cells.copy(), self.state.copy(), copy.deepcopy(self.detector)
        twin._ready()
        return twin

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        kept = 0
        if self.first is not None and self.first.X is not None:
            X = self.first.X
            kept = sum(a.nbytes for a in (X.data, X.indices, X.indptr)) if is_sparse(X) else X.nbytes
        return self.state.nbytes + self.cells.nbytes + int(kept)

    # --- learning -------------------------------------------------------------------------------------------------------------

    def learn(self, X: Any, y: Any = None, weight: Any = None) -> StreamTrace:
        """Learn checked examples in place: y is Coded labels, an array of reals, or None for novelty."""
        n = rows(X)
        if hasattr(X, "shape"):
            if not self.width:
                self.width = X.shape[1]
                if not self.plan.waits:
                    self._start()  # gamma="auto" asks for the number of features
            elif X.shape[1] != self.width:
                raise ValueError(f"X has {X.shape[1]} features, but this model was trained with {self.width}")
        if self.first is None:
            trace = self._advance(X, y, weight)
            self._ready()
            return trace
        head = min(n, SETTLE - (0 if self.first.X is None else rows(self.first.X)))
        front, back = slice(0, head), slice(head, n)
        labels = [y.names[i] for i in y.index[front]] if isinstance(y, Coded) else [] if y is None else list(y[front])
        self.first = self.first.joined(X[front], labels, None if weight is None else weight[front])
        trace, known = _last(self._begin_again(), head), list(self.classes)
        if rows(self.first.X) >= SETTLE:
            self.first = None
            if head < n:
                rest = self._advance(X[back], part(y, back), None if weight is None else weight[back])
                trace = self._join([(trace, known), (rest, self.classes)])
            self._ready()
        return trace

    def _begin_again(self) -> StreamTrace:
        """Relearn the first examples with the gamma that they ask for."""
        first = self.first
        assert first is not None
        self.gamma = spread_gamma(first.X)
        self._start()
        y = Coded.of(first.y) if self.plan.task == "classes" else np.array(first.y, np.float64) if first.y else None
        return self._advance(first.X, y, first.weight)

    def _advance(self, X: Any, y: Any, weight: Any) -> StreamTrace:
        """Learn, cutting the block where a class is seen for the first time."""
        if not isinstance(y, Coded):
            return self._run(X, y, weight)
        n = len(y.index)
        new = [i for i, name in enumerate(y.names) if name not in self.code]
        starts = sorted((int(np.argmax(here)), i) for i in new if (here := y.index == i).any())
        if not starts:
            return self._run(X, self._codes(y), weight)
        parts = []
        if starts[0][0] > 0:
            starts.insert(0, (0, -1))
        for (start, i), (stop, _) in zip(starts, [*starts[1:], (n, -1)]):
            if i >= 0:
                self.add_class(y.names[i])
            piece = slice(start, stop)
            trace = self._run(X[piece], self._codes(part(y, piece)), None if weight is None else weight[piece])
            parts.append((trace, list(self.classes)))
        return self._join(parts)

    def _codes(self, y: Coded) -> NDArray[np.float64]:
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
            self.learner = replace(self.learner, loss=self.plan.loss_over(len(self.classes)))
            self.state = grow_labels(self.state, self.learner, position)

    def grow(self, width: int) -> None:
        """More features: the points so far have 0 there, or nothing where missing values are left out."""
        if self.first is not None and self.first.X is not None:
            absent = np.nan if self.plan.missing == "ignore" else 0.0
            X = np.pad(self.first.X, ((0, 0), (0, width - self.width)), constant_values=absent)
            self.first = self.first._replace(X=X)
        if self.state.width:
            self.state = grow_features(self.state, 2 * width if self.plan.missing == "ignore" else width)
        self.width = width
        self._ready()

    def read(self, X: Any) -> Any:
        """Checked examples as a block for the learner."""
        return self.learner.read(with_mask(X) if self.plan.missing == "ignore" else X, self.state)

    def _run(self, X: Any, targets: Any, weight: Any) -> StreamTrace:
        block = self.read(X)
        y = self.learner.targets(targets, len(block))
        if self.detector is None:
            trace = advance(self.learner, self.state, block, y, weight)
            self._calibrate(trace, y, weight)
            return StreamTrace(*trace, np.zeros(len(block), bool))
        parts, done = [], 0
        while done < len(block):
            stop = done + min(len(block) - done, self.hurry or WATCH)
            trace = self._watch(block, slice(done, stop), y, weight)
            parts.append(trace)
            done += len(trace.loss)
        return _stack(parts)

    def _watch(self, block: Any, piece: slice, y: Array, weight: Any) -> StreamTrace:
        """Learn a piece up to the example, if any, at which the detector speaks, and act on it."""
        before = self.state.copy()
        learner = self._hurried() if self.hurry else self.learner
        w = None if weight is None else weight[piece]
        trace = advance(learner, self.state, block.take(piece), y[piece], w)
        n = stop = len(trace.loss)
        spoke = np.zeros(n, bool)
        for i, value in enumerate(self._signal(trace, y[piece])):
            self.detector.update(value)
            if self.detector.drift_detected:
                spoke[i], stop = True, i + 1
                break
        if stop < n:
            self.state = before
            piece = slice(piece.start, piece.start + stop)
            w = None if w is None else w[:stop]
            trace = advance(learner, self.state, block.take(piece), y[piece], w)
        self._calibrate(trace, y[piece], w)
        self.hurry = max(0, self.hurry - stop)
        if spoke.any():
            self._act()
        return StreamTrace(*trace, spoke[:stop])

    def _signal(self, trace: Trace, y: Array) -> list[Any]:
        """What a detector hears: 1 for a mistake or an alert, else 0; of real targets the absolute error."""
        return np.abs(y - trace.scores).tolist() if self.plan.task == "reals" else trace.mistake.astype(int).tolist()

    def _hurried(self) -> Learner:
        step = self.learner.step
        eta = (
            self.state.num[layout.ETA]
            if isinstance(step, Adaptive)
            else step.eta(self.state.t + 1)
            if callable(step.eta)
            else step.eta
        )
        return replace(self.learner, step=step._replace(lam=max(step.lam, SHRINK / float(eta))))

    def _act(self) -> None:
        if self.plan.on_drift == "forget":
            self.hurry = RECOVERY
        elif self.plan.on_drift == "shrink":
            self.state = keep_newest(self.state, self.learner, self.state.size // 2)
        else:
            width, self.state = self.state.width, self.learner.init()
            self.state.width = width

    def _calibrate(self, trace: Trace, y: Array, weight: Any) -> None:
        if self.plan.task == "classes":
            calibration.sharpen(self.cells, trace.scores, y, np.ones(len(y)) if weight is None else weight)
        elif self.plan.task == "reals":
            calibration.widen(self.cells, trace.scores, y, 1.0 - self.plan.coverage)
        elif self.plan.tracks:
            calibration.lower(self.cells, trace.scores, self.plan.nu)

    def _join(self, parts: list[tuple[StreamTrace, list[Any]]]) -> StreamTrace:
        """Traces one after the other; a class that was not known yet has score 0."""
        if self.plan.task == "classes":
            wide = []
            for trace, classes in parts:
                scores = np.zeros((len(trace.loss), max(len(self.classes), 1)))
                scores[:, [int(self.code[name]) for name in classes]] = trace.scores
                wide.append(trace._replace(scores=scores))
            return _stack(wide)
        return _stack([trace for trace, _ in parts])

    # --- one example at a time ------------------------------------------------------------------------------------------------

    def _ready(self) -> None:
        """Arrays have changed: the short ways in are bound anew when they are next asked for."""
        self.take: Any = None
        self.look: Any = None  # the class's code, or the score

    def bind(self) -> bool:
        """Open the short ways in, if there is nothing to settle, to watch, to fill in or to make room for."""
        plan, learner, state = self.plan, self.learner, self.state
        if self.first is not None or self.detector is not None or plan.missing != "error" or plan.budget is None:
            return False
        if state.store is not None or state.width <= 0 or learner.fixed_eta is None or isinstance(learner.loss, User):
            return False
        follow: Any = one_row.Nothing()
        if plan.task == "classes":
            follow = calibration.Temperature()
        elif plan.task == "reals":
            follow = calibration.Interval(1.0 - plan.coverage)
        elif plan.tracks:
            follow = calibration.Threshold(float(plan.nu))  # type: ignore[arg-type]
        like = rows_like(state.width, state.slots.dtype)
        described = (learner.loss, learner.label_kernel, learner.kernel, learner.settings)
        arrays = (state.num, state.slots, state.born, state.gram)
        self.take = packed(one_row.learn_row, (self.cells, follow, *described, *arrays, learner.fixed_eta, like), ROW, float64)
        work, raw = np.zeros((1, state.slots.shape[1]), state.slots.dtype), np.zeros(2 * state.m)
        looks = (learner.label_kernel, learner.kernel, state.base + layout.AUX, state.num, state.slots, work, raw, like)
        self.look = packed(one_row.best_row if plan.task == "classes" else one_row.score_row, looks, ROW)
        return True

    def learn_row(self, x: Any, y: float) -> bool:
        """Learn one row the short way, if it fits: an array of the model's dtype and width."""
        if self.take is None and not self.bind():
            return False
        code = self.take(x, y)
        if code >= 0 or code == one_row.UNFIT:
            return bool(code >= 0)
        raise FloatingPointError(
            f"x = {x!r:.80} takes the model out of the range of finite numbers; nothing was changed. "
            "Scale the data, or take a smaller eta, or a kernel that does not overflow"
        )

    def alone(self, y: Any) -> bool:
        """Whether one example can be learned in place: the core changes nothing when it refuses one."""
        known = not isinstance(y, Coded) or all(name in self.code for name in y.names)
        return known and self.first is None and self.detector is None

    def __getstate__(self) -> dict[str, Any]:
        """Without what is bound to this process; the learner follows from the plan."""
        return {name: value for name, value in self.__dict__.items() if name not in BOUND}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.learner = self.plan.learner(self.gamma, self.width, len(self.classes))
        self._ready()

    # --- scoring --------------------------------------------------------------------------------------------------------------

    def score(self, X: Any) -> Array:
        """Scores of checked examples: (n,), or (n, m) over ``classes``."""
        return score_block(self.learner, self.state, self.read(X))


def part(y: Any, piece: slice) -> Any:
    return Coded(y.names, y.index[piece]) if isinstance(y, Coded) else None if y is None else y[piece]


def _stack(traces: list[StreamTrace]) -> StreamTrace:
    return traces[0] if len(traces) == 1 else StreamTrace(*(np.concatenate(column) for column in zip(*traces)))


def _last(trace: StreamTrace, n: int) -> StreamTrace:
    return StreamTrace(*(column[len(column) - n :] for column in trace))


def _some(names: list[Any]) -> str:
    return ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")


def restored(plan: Plan, parts: dict[str, Any]) -> Model:
    """A model from its parts, as a file holds them; what compiled code will trust is compared first."""
    model = Model(plan, parts["declared"])
    cells = parts["cells"]
    if (
        not isinstance(cells, np.ndarray)
        or (cells.shape, cells.dtype) != (model.cells.shape, model.cells.dtype)
        or not np.isfinite(cells).all()
    ):
        raise ValueError("the calibration of this model is damaged")
    if not all(type(parts[name]) is int and parts[name] >= 0 for name in ("width", "hurry")):
        raise ValueError("the counts of this model are damaged")
    for name in KEPT:
        setattr(model, name, parts[name])
    model.first = None if parts["first"] is None else First.of(parts["first"])
    model.code = {name: float(i) for i, name in enumerate(model.classes)}
    model.learner = plan.learner(model.gamma, model.width, len(model.classes))
    model._ready()
    return model
