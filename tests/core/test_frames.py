"""How far it is from a call to the compiled loop, in Python frames of this library."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import onkel
from onkel.core.machine import calls

PACKAGE = str(Path(onkel.__file__).parent)


def depths(call, monkeypatch):
    """The most frames of ours that are open at once during the call, and how many are when the loop is entered."""
    deepest, entered, open_now = 0, [], []

    def profile(frame, event, given):
        nonlocal deepest
        if frame.f_code.co_filename.startswith(PACKAGE):
            if event == "call":
                open_now.append(frame)
                deepest = max(deepest, len(open_now))
            elif event == "return" and open_now and open_now[-1] is frame:
                open_now.pop()

    real = calls.Road.__call__

    def watched(road, values):  # stands for the frame of Road.__call__, and is none of ours
        entered.append(len(open_now) + 1)
        return real(road, values)

    monkeypatch.setattr(calls.Road, "__call__", watched)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return max(entered), deepest


@pytest.mark.parametrize("d", [2, 20])
def test_learn_is_four_frames_from_the_loop(d, monkeypatch):
    X = np.random.default_rng(0).normal(size=(40, d))
    y = np.sign(X[:, 0])
    learner = onkel.silk(onkel.RBF(np.sqrt(d)), onkel.Hinge(), budget=16)
    state, _ = learner.learn(learner.init(), X, y)
    learner.score(state, X)
    entered, deepest = depths(lambda: learner.learn(state, X, y), monkeypatch)
    assert entered <= 4
    assert deepest <= 5
    entered, deepest = depths(lambda: learner.score(state, X), monkeypatch)
    assert entered <= 4
    assert deepest <= 5
