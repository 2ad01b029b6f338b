"""A drift detector at work beside a model: what it hears, and what follows when it speaks."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from onkel.core.learner import Learner
from onkel.core.loop import layout as at
from onkel.core.maths.steps import Adaptive
from onkel.core.state import State
from onkel.estimators.reshape import keep_newest

AHEAD = 256  # examples learned ahead of the detector, then taken back as far as need be
RECOVERY, SHRINK = 100, 0.03  # after a drift with action "forget": so many steps, in each of which f loses this share


class Watch:
    """A detector, and for how many more examples f forgets faster."""

    def __init__(self, detector: Any, left: int = 0):
        self.detector, self.left = copy.deepcopy(detector), left

    def copy(self) -> Watch:
        """One that hears on its own."""
        return Watch(self.detector, self.left)

    def hear(self, values: list[Any]) -> int:
        """Tell the detector; the number of the value at which it speaks, -1 if it does not."""
        if self.detector is None:  # it was not saved with the model, which goes on forgetting
            return -1
        for i, value in enumerate(values):
            self.detector.update(value)
            if self.detector.drift_detected:
                return i
        return -1


def forgetful(learner: Learner, state: State) -> Learner:
    """The learner that shrinks f by SHRINK in each of the next steps."""
    step = learner.step
    adaptive = isinstance(step, Adaptive)
    eta = state.num[at.ETA] if adaptive else step.eta(state.t + 1) if callable(step.eta) else step.eta  # type: ignore[union-attr]
    return replace(learner, step=step._replace(lam=max(step.lam, SHRINK / float(eta))))  # type: ignore[union-attr, call-arg]


def acted(action: str, watch: Watch, learner: Learner, state: State) -> State:
    """The state that the action leaves."""
    if action == "forget":
        watch.left = RECOVERY
        return state
    if action == "shrink":
        return keep_newest(state, learner, state.size // 2)
    fresh = learner.init()
    fresh.width = state.width
    return fresh
