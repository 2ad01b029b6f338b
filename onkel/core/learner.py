"""The learner: a frozen description of kernel, loss, step and budget, which turns a state and a block into the next state."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.core.loop import layout as at
from onkel.core.loop import scan
from onkel.core.machine.compiled import bound
from onkel.core.maths.budget import DROPS, NO_LIMIT, Budget
from onkel.core.maths.kernels import as_kernel, is_direct
from onkel.core.maths.labelled import Softmax, Structured
from onkel.core.maths.losses import Hinge, Novelty
from onkel.core.maths.steps import Adaptive, Alma, Explicit, Implicit, Step, etas, number, small_enough
from onkel.core.maths.user_loss import User
from onkel.core.points.dense import Array, Rows
from onkel.core.points.matrices import Store, Workspace, calm_blas, diagonal, read, rows_at_once
from onkel.core.points.products import one_blas_thread
from onkel.core.state import State

# Kernel values are computed in the loop up to this many stored numbers, four times as many where there are few features (then the
# exponentials are most of the work); beyond, by matrix products.  Measured crossovers.
DIRECT_SIZE, FEW_FEATURES = 32_000, 32
CHUNK = 8192  # rows between two looks at the outside world


class Trace(NamedTuple):
    """What happened, one entry per example, taken before its update (theta and size: after it)."""

    scores: Array
    loss: NDArray[np.float64]
    mistake: NDArray[np.bool_]
    eta: NDArray[np.float64]
    theta: NDArray[np.float64]
    size: NDArray[np.int64]


@dataclass(frozen=True)
class Learner:
    """Online kernel learning as a value: ``init() -> State``, ``learn(state, X, y) -> (State, Trace)``, ``score(state, X)``.

    The recipes (:func:`onkel.norma`, :func:`onkel.ilk`, :func:`onkel.silk`, :func:`onkel.svmd`, ...) make the learners of the
    papers; any other combination of kernel, loss, step and budget works as well.

    >>> import numpy as np, onkel
    >>> learner = Learner(onkel.RBF(0.5), onkel.Hinge(), Implicit(eta=1.0, lam=0.0), Budget(16, "merge"))
    >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    >>> state, trace = learner.learn(learner.init(), X, np.sign(X[:, 0] * X[:, 1]))
    >>> state
    State(t=500, size=16)
    """

    kernel: Any
    loss: Any
    step: Step
    budget: Budget = NO_LIMIT
    nu: float | None = None
    offset: bool = False

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "kernel", as_kernel(self.kernel))
        if not hasattr(type(self.loss), "targets"):
            raise TypeError(f"loss: give a loss such as onkel.Hinge(), or onkel.loss(value, derivative); got {self.loss!r}")
        if not isinstance(self.step, Explicit | Implicit | Adaptive | Alma):
            raise TypeError(f"step: give Explicit, Implicit, Adaptive or Alma; got {self.step!r}")
        if not isinstance(self.budget, Budget):
            raise TypeError(f"budget: give Budget(size, drop, window), for example Budget(128, 'merge'); got {self.budget!r}")
        put(self, "step", self.step.check())
        put(self, "budget", self.budget.check())
        put(self, "offset", bool(self.offset))
        if self.nu is not None:
            put(self, "nu", number("learner", "nu", self.nu, open_low=True, high=1.0))
            if math.isnan(self.loss.theta):
                raise ValueError(f"nu moves a margin or a tube, and {type(self.loss).__name__} has neither; leave nu out")
            if self._implicit:
                raise ValueError("nu goes with explicit and adaptive steps; the implicit step has no nu-trick")
        if self._implicit and self.loss.theta == 0.0 and isinstance(self.loss, Hinge | Novelty | Structured):
            raise ValueError("rho must be above 0 for an implicit step: with rho = 0 it never starts from f = 0")
        if isinstance(self.step, Alma) and (type(self.loss) is not Hinge or self.offset or self.nu is not None):
            raise ValueError("Alma goes with Hinge(), without offset and nu")
        if isinstance(self.step, Adaptive) and self.step.implicit and self.offset:
            raise ValueError("the adaptive implicit step has no offset; take offset=False")

    def __getstate__(self) -> dict[str, Any]:
        """The description alone: compiled loops that were kept at hand can neither be pickled nor copied."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    # --- description, in the numbers that the loop reads ---------------------------------------------------------------------

    @property
    def _implicit(self) -> bool:
        return isinstance(self.step, Implicit) or (isinstance(self.step, Adaptive) and self.step.implicit)

    @property
    def outputs(self) -> int:
        """How many scores an example has: 1, or one for each label."""
        return 1 if self._scalar else int(self.loss.labels.m)

    @property
    def _scalar(self) -> bool:
        return not isinstance(self.loss, Structured | Softmax)

    @cached_property
    def _rule(self) -> NDArray[np.float64]:
        rule = np.zeros(at.RULES)
        step = self.step
        rule[at.NU] = math.nan if self.nu is None else self.nu
        rule[at.OFFSET] = self.offset
        rule[at.DROP] = DROPS.index(self.budget.drop)
        rule[at.BUDGET] = math.inf if self.budget.size is None else self.budget.size
        rule[at.ETA_MAX] = math.inf
        rule[at.DECAY] = rule[at.REPAIR] = 1.0
        if isinstance(step, Alma):
            rule[at.STEP] = at.ALMA
            rule[at.ALMA_MARGIN] = (1.0 - step.alpha) * float(step.B or 0.0)
            rule[at.ALMA_STEP] = step.C
            return rule
        rule[at.LAM], rule[at.C] = step.lam, step.C
        if isinstance(step, Explicit):
            rule[at.STEP], rule[at.TIE] = at.EXPLICIT, 1.0
        elif isinstance(step, Implicit):
            rule[at.STEP], rule[at.EXACT] = at.IMPLICIT, step.exact
        else:
            rule[at.STEP] = at.ADAPTIVE_IMPLICIT if step.implicit else at.ADAPTIVE
            rule[at.MU], rule[at.DECAY], rule[at.EXACT] = step.mu, step.decay, step.exact
            rule[at.ETA_MIN] = step.eta_min or 0.0
            rule[at.ETA_MAX] = math.inf if step.eta_max is None else step.eta_max
            rule[at.REPAIR] = step.repair
        return rule

    def _pace(self, start: int, n: int, weight: Any) -> NDArray[np.float64]:
        """Per example, or once for all: step size, weight, and how far back f may reach."""
        if weight is None and self._eta is not None and not callable(self.budget.window):
            return np.array([[self._eta, 1.0, math.inf if self.budget.window is None else self.budget.window]])
        pace = np.ones((n, 3))
        if isinstance(self.step, Explicit | Implicit):
            pace[:, 0] = etas(self.step.eta, start, n)
            if isinstance(self.step, Explicit) and callable(self.step.eta):
                small_enough(pace[:, 0], self.step.lam)
        if weight is not None:
            pace[:, 1] = weight
        pace[:, 2] = self.budget.looks_back(start, n)
        return pace

    # --- the four verbs ---------------------------------------------------------------------------------------------------------

    def init(self) -> State:
        """The state before the first example: f = 0."""
        m = self.outputs
        base = 2 * m if isinstance(self.step, Adaptive) else m
        num = np.zeros(at.length(m))
        num[at.SCALE] = num[at.P] = num[at.COUNT] = num[at.ETA_THETA] = 1.0
        num[at.THETA] = self.loss.theta
        if isinstance(self.step, Adaptive):
            num[at.ETA] = self.step.eta
            num[at.NUMBERS + at.ETA_B * m : at.NUMBERS + (at.ETA_B + 1) * m] = self.step.eta
            if self.nu is not None:
                num[at.THETA] = self.step.epsilon
        if isinstance(self.step, Alma):
            num[at.THETA] = self._rule[at.ALMA_MARGIN]
        return State(m, base, self._scalar, num)

    def learn(
        self,
        state: State,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        threads: int = 1,
        backend: str = "cpu",
    ) -> tuple[State, Trace]:
        """Learn the examples one after the other; the given state stays as it was.

        y holds +1 and -1, real numbers or class codes 0 .. m-1, as the loss asks; None for novelty.  ``threads`` share the
        kernel values of large budgets; ``backend="gpu"`` learns on the graphics card (needs CuPy).
        """
        check_threads(threads)
        block = self.read(X, state)
        targets = self.targets(y, len(block))
        weight = None if sample_weight is None else checked_weights(sample_weight, len(block))
        state = state.copy()
        if backend == "gpu":
            from onkel import gpu

            return state, gpu.learn(self, state, block, targets, weight)
        if backend != "cpu":
            raise ValueError(f"backend must be 'cpu' or 'gpu'; got {backend!r}")
        return state, self.advance(state, block, targets, weight, threads)

    def score(self, state: State, X: Any, *, threads: int = 1) -> Array:
        """f(x) + b of each row of X: (n,), or (n, m) for labels.  Never changes the state."""
        check_threads(threads)
        return self.score_block(state, self.read(X, state), threads)

    # --- behind the doors: no checks from here on ---------------------------------------------------------------------------------

    def read(self, X: Any, state: State) -> Store:
        """X as a checked block of points that fits the state."""
        block = read(X, self.kernel, state.slots.dtype if state.width else None)
        if state.width and block.width != state.width:
            if state.width < 0 or block.width < 0:
                raise ValueError("X: this model has learned from objects of one kind; numbers and other objects do not mix")
            raise ValueError(f"X has {block.width} features, but this model was trained with {state.width}")
        if state.width and not is_same_kind(block, state):
            raise ValueError("X: sparse and dense rows do not mix in one model; convert X to the kind it first learned from")
        return block

    def targets(self, y: Any, n: int) -> NDArray[np.float64]:
        """y as checked numbers."""
        kind = self.loss.targets
        if kind == "none":
            return np.ones(n)
        if y is None:
            raise ValueError(f"y is missing: {type(self.loss).__name__} needs a target for each example")
        try:
            given = np.asarray(y)
            if given.dtype.kind == "c":
                raise TypeError
            targets = np.array(given, dtype=np.float64)  # a copy: the loop is compiled for arrays that may be written
        except (TypeError, ValueError):
            raise ValueError(f"y must be real numbers: {_TARGETS[kind]}; got {y!r:.80}") from None
        if targets.shape != (n,):
            raise ValueError(f"y must have one entry for each of the {n} examples, shape ({n},); got shape {targets.shape}")
        if not np.isfinite(targets).all():
            raise ValueError("y holds NaN or infinity; every target must be finite")
        if kind == "signs":
            bad = np.abs(targets) != 1.0
        elif kind == "codes":
            bad = (targets != np.floor(targets)) | (targets < 0) | (targets >= self.outputs)
        else:
            return targets
        if bad.any():
            allowed = _TARGETS[kind] if kind == "signs" else f"class codes 0 .. {self.outputs - 1}"
            raise ValueError(f"y must hold {allowed} for {type(self.loss).__name__}; got {targets[bad][0]:g}")
        return targets

    def advance(
        self,
        state: State,
        block: Store,
        y: NDArray[np.float64],
        weight: Any = None,
        threads: int = 1,
        room: Workspace | None = None,
        before: int = 0,
    ) -> Trace:
        """Learn a block in place; ``before``: how many examples of the same call came in earlier blocks."""
        n = len(block)
        pace = self._pace(state.t, n, weight)
        answers, traces = np.empty((n, state.m)), np.empty((at.TRACE, n))
        room = room or Workspace(block.dtype, threads)
        start = state.t - before
        done = 0
        limited = False
        with ExitStack() as held:
            while done < n:
                size = min(n - done, self._settle(state, block))
                if state.store is not None and not limited:
                    held.enter_context(calm_blas(block))
                    limited = True
                part = slice(done, done + size)
                run = self._direct if state.store is None else self._rows
                code = run(state, block, part, room, y[part], pace if len(pace) == 1 else pace[part], answers[part], traces)
                if code < 0:
                    raise _failure(code, state.t - start, self)
                done += size
        loss, mistake, eta, theta, length = traces
        scores = answers[:, 0] if self._scalar else answers
        return Trace(scores, loss, mistake.astype(bool), eta, theta, length.astype(np.int64))

    @cached_property
    def _loops(self) -> dict[Any, Any]:
        return {}

    def _loop(self, kernel: Any, state: State, X: Array, inner: Array, own: Array, here: tuple[Any, ...], source: Array) -> int:
        """The hot loop, compiled for these types when they first come and called without looking at them afterwards."""
        y, pace, *told = here
        arguments = (X, inner, own, y, pace, self._rule, state.num, state.slots, state.born, state.gram, *told, source)
        key = (kernel is self.kernel, state.slots.dtype, state.gram.dtype)
        if key not in self._loops:
            loop = scan.scan_once if isinstance(self.loss, User) else scan.scan
            self._loops[key] = bound(loop, (self.loss, self._kappa, kernel), arguments)
        return int(self._loops[key](*arguments))

    def _direct(self, state: State, block: Any, part: slice, room: Workspace, *here: Any) -> int:
        """Rows computed in the loop."""
        nothing = state.slots[:0]
        return self._loop(self.kernel, state, block.data[part], nothing, state.slots[0, :0], (*here, part.start), state.born[:0])

    def _rows(self, state: State, block: Store, part: slice, room: Workspace, *here: Any) -> int:
        """Rows from matrices, then the points that were stored into their slots."""
        assert state.store is not None
        rows = block.take(part) if part != slice(0, len(block)) else block
        used, size = int(state.num[at.USED]), len(rows)
        columns = min(state.slots.shape[1], _round_up(used + size))
        K = room.evaluate("K", self.kernel, rows, state.store, used, columns, (part.start, state.born[:used]))
        inner = room.evaluate("inner", self.kernel, rows, rows, size, size, (part.start, state.born[:0]))
        source = np.full(state.slots.shape[1], -1, np.int64)
        code = self._loop(_GIVEN, state, K, inner, diagonal(self.kernel, rows), (*here, part.start), source)
        filled = np.flatnonzero(source >= 0)
        if len(filled):
            state.store.put(filled, rows, source[filled])  # type: ignore[arg-type]
        return code

    def learn_row(self, state: State, x: Array, y: float, weight: float = 1.0) -> None:
        """Learn one example in place, unchecked and fast: x a contiguous row of the state's dtype, y a float."""
        if state.learn_one is None or (self.budget.size is None and state.size + 1 >= state.slots.shape[1]):
            self._learn_first_row(state, x, y, weight)
            return
        eta = self._eta
        code = state.learn_one(x, y, weight, self.step.eta(state.t + 1) if eta is None else eta)  # type: ignore[union-attr, operator]
        if code < 0:
            raise _failure(code, 0, self)

    def _learn_first_row(self, state: State, x: Array, y: float, weight: float) -> None:
        """The same by the general way, which also makes room; then see whether the short way is open."""
        block = Rows(x.reshape(1, -1)) if isinstance(x, np.ndarray) else self.read([x], state)
        self.advance(state, block, np.array([y]), np.array([weight]))
        if state.store is None and not callable(self.budget.window):
            loop = scan.learn_one_once if isinstance(self.loss, User) else scan.learn_one
            reach = math.inf if self.budget.window is None else float(self.budget.window)
            head = (self.loss, self._kappa, self.kernel, reach, self._rule, state.num, state.slots, state.born, state.gram)
            state.learn_one = bound(loop, head, (x, 1.0, 1.0, 1.0))

    def score_row(self, state: State, x: Array) -> Any:
        """Scores of one example, unchecked: a number, or one for each label."""
        return self.score_block(state, Rows(x.reshape(1, -1)) if isinstance(x, np.ndarray) else self.read([x], state))[0]

    @cached_property
    def _kappa(self) -> Array:
        """The label kernel, empty where it is the identity."""
        return np.empty((0, 0)) if self._scalar or self.loss.labels.plain else self.loss.labels.kernel

    @cached_property
    def _eta(self) -> float | None:
        """The step size where it is one number for all examples."""
        if isinstance(self.step, Adaptive | Alma):
            return 1.0
        return None if callable(self.step.eta) else self.step.eta

    def score_block(self, state: State, block: Store, threads: int = 1) -> Array:
        m, n = state.m, len(block)
        out = np.zeros((n, m), np.float64)
        b = state.num[at.NUMBERS : at.NUMBERS + m]
        used, scale = int(state.num[at.USED]), float(state.num[at.SCALE])
        if used == 0:
            out += b
        elif state.store is None:
            scan.score(self._kappa, self.kernel, block.data, state.base + at.AUX, state.num, state.slots, out)  # type: ignore[union-attr]
        else:
            size = max(64, 1 << 22 >> int(used).bit_length())
            coef = scale * state.slots[:m, :used].astype(np.float64)
            if not self._scalar and not self.loss.labels.plain:
                coef = self.loss.labels.kernel @ coef
            coef = np.ascontiguousarray(coef.astype(state.slots.dtype).T)
            room = Workspace(state.slots.dtype, threads)
            with one_blas_thread():
                for first in range(0, n, size):
                    part = block.take(slice(first, first + size)) if n > size else block
                    K = room.evaluate("K", self.kernel, part, state.store, used, used, (first, state.born[:0]))
                    out[first : first + size] = K @ coef + b
        return out[:, 0] if self._scalar else out

    # --- room ---------------------------------------------------------------------------------------------------------------

    @property
    def _layers(self) -> int:
        """How many matrices over the stored points the budget keeps: none, their kernel values, or those and their inverse."""
        if self.budget.drop in ("merge", "project"):
            return 2 if self.budget.drop == "project" else 1
        return int(isinstance(self.step, Adaptive) and self.step.repair and self.budget != NO_LIMIT)

    def _expected(self, state: State) -> float:
        """How many points to make ready for: a whole budget, so that its memory never changes; without one, twice what is there."""
        limit = self.budget.limit()
        return limit if self.budget.size is not None else min(limit, max(2 * state.size, 256))

    def in_loop(self, state: State, block: Store) -> bool:
        """Whether the loop computes kernel values itself."""
        width = max(block.width, 1)
        limit = 4 * DIRECT_SIZE if width <= FEW_FEATURES else DIRECT_SIZE
        return is_direct(self.kernel) and isinstance(block, Rows) and self._expected(state) * width <= limit

    def _settle(self, state: State, block: Store) -> int:
        """Make room for the next examples; returns how many may come in one go."""
        limit = self.budget.limit()
        if not state.width:
            state.width = block.width
        used, expected, small = state.size, self._expected(state), self.in_loop(state, block)
        if small:
            size = CHUNK if self.budget.size is not None else 256
        else:
            size = rows_at_once(block, expected)
        need = _round_up(int(min(limit, used + size)))
        room = state.slots.shape[1]
        if state.slots.shape[0] == 0 or room < need or (state.store is None) != small:
            if self.budget.size is None:
                need = max(need, min(2 * room, _round_up(int(min(limit, 2**62)))))
            state.lay_out(block, need if self.budget.size is None else _round_up(self.budget.size), small, self._layers)
        return size


_GIVEN = scan.Given()
_TARGETS = {"signs": "+1 and -1", "reals": "real numbers", "codes": "class codes"}


def _round_up(n: int) -> int:
    return (n + at.LANES - 1) // at.LANES * at.LANES


def is_same_kind(block: Store, state: State) -> bool:
    return isinstance(block, Rows) if state.store is None else type(block) is type(state.store)


def check_threads(threads: Any) -> None:
    if isinstance(threads, bool) or not isinstance(threads, int | np.integer) or threads < 1:
        raise ValueError(f"threads must be a whole number, at least 1; got {threads!r}")


def checked_weights(given: Any, n: int) -> NDArray[np.float64]:
    try:
        weight = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        weight = np.full(1, np.nan)
    if weight.ndim == 0:
        weight = np.full(n, float(weight))
    if weight.shape != (n,) or not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError(f"sample_weight must be {n} finite numbers, none of them negative; got {given!r:.80}")
    return weight


def _failure(code: int, row: int, learner: Learner) -> Exception:
    if code == at.NOT_CONVEX:
        return ValueError(
            f"the loss given to onkel.loss is not convex, or its derivative does not belong to its value, at example {row} of this "
            "call; check both functions there"
        )
    return FloatingPointError(
        f"the model left the range of finite numbers at example {row} of this call; nothing was changed. "
        "Scale the data, or take a smaller eta, a kernel that does not overflow, or eta_max for adaptive steps"
    )
