"""A state belongs to learners of one kind: what another one would read wrongly, or beyond its arrays, is refused."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import onkel
from onkel import RBF, Adaptive, Budget, Explicit, Hinge, Implicit, Labels, Learner, Structured

X = np.random.default_rng(0).normal(size=(60, 2))
Y = np.sign(X[:, 0])


def learned(learner, y=Y):
    return learner.learn(learner.init(), X, y)[0]


HINGE = Learner(RBF(1.0), Hinge(), Implicit(), Budget(16, "merge"))
OTHERS = {
    "budget": [
        Learner(RBF(1.0), Hinge(), Implicit(), Budget(16, drop)) for drop in ("oldest", "smallest", "project")
    ] + [Learner(RBF(1.0), Hinge(), Implicit(), Budget(512, "merge")), Learner(RBF(1.0), Hinge(), Implicit())],
    "kernel": [Learner(RBF(2.0), Hinge(), Implicit(), Budget(16, "merge"))],
    "trace": [Learner(RBF(1.0), Hinge(), Adaptive(), Budget(16, "merge"))],
    "scores": [Learner(RBF(1.0), Structured(Labels.flat(3)), Implicit(), Budget(16, "merge"))],
}  # fmt: skip
PAIRS = [(word, other) for word, learners in OTHERS.items() for other in learners]


@pytest.mark.parametrize(("word", "other"), PAIRS, ids=[f"{word}{i}" for i, (word, _) in enumerate(PAIRS)])
def test_a_state_of_another_learner_is_refused(word, other):
    y = np.zeros(60, int) if other.loss.targets == "codes" else Y
    for ours, theirs, targets in ((HINGE, learned(other, y), Y), (other, learned(HINGE), y)):
        for state in (theirs, theirs.copy(), copy.deepcopy(theirs), pickle.loads(pickle.dumps(theirs))):
            with pytest.raises(ValueError, match=word):
                ours.learn(state, X, targets)
            with pytest.raises(ValueError, match=word):
                ours.score(state, X)


def test_steps_and_parameters_may_change():
    state = learned(HINGE)
    for other in (
        Learner(RBF(1.0), Hinge(0.5), Implicit(0.1, 0.5, 2.0), Budget(16, "merge")),
        Learner(RBF(1.0), Hinge(), Explicit(0.1), Budget(16, "merge"), nu=0.2),
        Learner(RBF(1.0), onkel.Logistic(), Implicit(), Budget(16, "merge")),
    ):
        assert other.learn(state, X, Y)[0].t == 120
