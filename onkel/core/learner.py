"""The learner: a frozen description of kernel, loss, step and budget, which turns a state and a block into the next state."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.checks import block_of, check_state, check_threads, checked_ids, checked_targets, checked_weights
from onkel.core.drive import Trace, advance, score_block
from onkel.core.ids import remembered
from onkel.core.loop import layout as at
from onkel.core.maths.budget import NO_LIMIT, Budget
from onkel.core.maths.kernels import as_kernel
from onkel.core.maths.losses import Loss
from onkel.core.maths.steps import Step
from onkel.core.maths.value import checked_number
from onkel.core.points.dense import Array
from onkel.core.points.read import Store
from onkel.core.state import State


@dataclass(frozen=True)
class Learner:
    """Online kernel learning as a value: ``init() -> State``, ``learn(state, X, y) -> (State, Trace)``, ``score(state, X)``.

    The recipes (:func:`onkel.norma`, :func:`onkel.ilk`, :func:`onkel.silk`, :func:`onkel.svmd`, ...) make the learners of the
    papers; any other combination of kernel, loss, step and budget works as well.

    >>> import numpy as np, onkel
    >>> learner = Learner(onkel.RBF(0.5), onkel.Hinge(), onkel.Implicit(eta=1.0, lam=0.0), Budget(16, "merge"))
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
        if not isinstance(self.loss, Loss):
            raise TypeError(f"loss: give a loss such as onkel.Hinge(), or onkel.loss(value, derivative); got {self.loss!r}")
        if not isinstance(self.step, Step):
            raise TypeError(f"step: give Explicit, Implicit, Adaptive or Alma; got {self.step!r}")
        if not isinstance(self.budget, Budget):
            raise TypeError(f"budget: give Budget(size, drop, window), for example Budget(128, 'merge'); got {self.budget!r}")
        put(self, "offset", bool(self.offset))
        if self.nu is not None:
            put(self, "nu", checked_number("learner", "nu", self.nu, above=0, high=1.0))
            if math.isnan(self.loss.theta):
                raise ValueError(f"nu moves a margin or a tube, and {type(self.loss).__name__} has neither; leave nu out")
        self.step.check(self.loss, self.nu, self.offset)
        if self.step.adaptive and not self.budget.rule.adaptive:
            raise ValueError(f"drop={self.budget.drop!r} does not go with adaptive steps: it does not keep <f, v> and |f|^2 exact")

    def __getstate__(self) -> dict[str, Any]:
        """The description alone: compiled loops that were kept at hand can neither be pickled nor copied."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @property
    def outputs(self) -> int:
        """How many scores an example has: 1, or one for each label."""
        return 1 if self.scalar else int(self.loss.labels.m)

    @property
    def scalar(self) -> bool:
        return not self.loss.labelled

    @cached_property
    def settings(self) -> NDArray[np.float64]:
        settings = np.zeros(at.RULES)
        settings[at.NU] = math.nan if self.nu is None else self.nu
        settings[at.OFFSET] = self.offset
        settings[at.DROP] = getattr(at, self.budget.rule.kind)
        settings[at.BUDGET] = math.inf if self.budget.size is None else self.budget.size
        settings[at.ETA_MAX] = math.inf
        settings[at.DECAY] = settings[at.REPAIR] = 1.0
        settings[at.STEP] = getattr(at, self.step.kind)
        for name, value in self.step.settings().items():
            settings[getattr(at, name)] = value
        return settings

    def pace(self, start: int, n: int, weight: Any) -> NDArray[np.float64]:
        """Per example, or once for all: step size, weight, and how far back f may reach."""
        if weight is None and self.fixed_eta is not None and not callable(self.budget.window):
            return np.array([[self.fixed_eta, 1.0, math.inf if self.budget.window is None else self.budget.window]])
        pace = np.ones((n, 3))
        pace[:, 0] = self.step.etas(start, n)
        if weight is not None:
            pace[:, 1] = weight
        pace[:, 2] = self.budget.looks_back(start, n)
        return pace

    # --- the four verbs ---------------------------------------------------------------------------------------------------------

    def init(self) -> State:
        """The state before the first example: f = 0."""
        m = self.outputs
        base = 2 * m if self.step.adaptive else m
        num = np.zeros(at.length(m))
        num[at.SCALE] = num[at.TRACE_SCALE] = num[at.COUNT] = num[at.ETA_THETA] = 1.0
        num[at.THETA] = self.step.first_theta(self.loss.theta, self.nu)
        if self.step.adaptive:
            num[at.ETA] = self.step.eta  # type: ignore[attr-defined]
            num[at.NUMBERS + at.ETA_B * m : at.NUMBERS + (at.ETA_B + 1) * m] = num[at.ETA]
        return State(m, base, self.scalar, num, made_for=self.made_for)

    @cached_property
    def made_for(self) -> dict[str, Any]:
        """What a state is laid out for; learners that share states agree on it."""
        kernel = re.sub(r" at 0x[0-9a-f]+", "", repr(self.kernel))  # a function of the user's is known by its name
        return {
            "number of scores": self.outputs,
            "step with a trace": self.step.adaptive,
            "kernel": kernel,
            "budget": (self.budget.size, self.budget.drop),
        }

    def learn(
        self,
        state: State,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        ids: Any = None,
        threads: int = 1,
        backend: str = "cpu",
    ) -> tuple[State, Trace]:
        """Learn the examples one after the other; the given state stays as it was.

        y holds +1 and -1, real numbers or class codes 0 .. m-1, as the loss asks; None for novelty.  ``threads`` share the
        kernel values of large budgets; ``backend="gpu"`` learns on the graphics card (needs CuPy).
        ``ids``, whole numbers or strings, say whose the examples are; the state keeps those of its points, for explanations and
        for forgetting.
        """
        check_threads(threads)
        check_state(state, self.made_for)
        block = self.read(X, state)
        targets = self.targets(y, len(block))
        names = None if ids is None else checked_ids(ids, len(block))
        weight = None if sample_weight is None else checked_weights(sample_weight, len(block))
        state = state.copy()
        if backend == "gpu":
            from onkel import gpu

            trace = gpu.learn(self, state, block, targets, weight)
            if names is not None:
                state.known = remembered(state.known, state.t, names, state.born)
            return state, trace
        if backend != "cpu":
            raise ValueError(f"backend must be 'cpu' or 'gpu'; got {backend!r}")
        trace = advance(self, state, block, targets, weight, threads)
        if names is not None:
            state.known = remembered(state.known, state.t, names, state.born)
        return state, trace

    def score(self, state: State, X: Any, *, threads: int = 1) -> Array:
        """f(x) + b of each row of X: (n,), or (n, m) for labels.  Never changes the state."""
        check_threads(threads)
        check_state(state, self.made_for)
        return score_block(self, state, self.read(X, state), threads)

    # --- behind the doors: no checks from here on ---------------------------------------------------------------------------------

    def read(self, X: Any, state: State) -> Store:
        """X as a checked block of points that fits the state."""
        return block_of(X, self.kernel, state)

    def targets(self, y: Any, n: int) -> NDArray[np.float64]:
        """y as checked numbers."""
        return checked_targets(y, self.loss, self.outputs, n)

    @cached_property
    def roads(self) -> dict[Any, Any]:
        """The ways into compiled code, for the types that have come so far."""
        return {}

    @cached_property
    def label_kernel(self) -> Array:
        """The label kernel, empty where it is the identity."""
        return np.empty((0, 0)) if self.scalar or self.loss.labels.plain else self.loss.labels.kernel

    @cached_property
    def fixed_eta(self) -> float | None:
        """The step size where it is one number for all examples."""
        return self.step.fixed
