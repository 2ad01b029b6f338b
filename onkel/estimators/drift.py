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
RECENT, LONG = 30, 500  # values over which running means look back
RECOVERY, SHRINK = 100, 0.03  # after a drift with action "forget": so many steps, in each of which f loses this share


class Watch:
    """A detector, which is told one number of each example and obeyed where it speaks of a rise.

    Most detectors speak of any change, and errors fall whenever a model learns.  So two running means of what the detector hears
    are kept, over RECENT and over LONG values: a change counts as a rise where the recent one is above the other.
    """

    def __init__(self, detector: Any):
        self.detector = copy.deepcopy(detector)
        self.left = 0  # examples in which f still forgets faster
        self.heard, self.recent, self.long = 0, 0.0, 0.0

    def copy(self) -> Watch:
        """One that hears on its own."""
        twin = copy.copy(self)
        twin.detector = copy.deepcopy(self.detector)
        return twin

    def hear(self, values: list[Any]) -> int:
        """Tell the detector; the number of the value at which it speaks of a rise, -1 if it does not."""
        if self.detector is None:
            return -1
        for i, value in enumerate(values):
            self.detector.update(value)
            self.heard += 1
            self.recent += (value - self.recent) / min(self.heard, RECENT)
            self.long += (value - self.long) / min(self.heard, LONG)
            if self.detector.drift_detected and self.recent > self.long:
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
