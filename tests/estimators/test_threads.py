"""One writer at a time, readers who get a copy of one moment: threads that are switched every microsecond."""

import copy
import pickle
import sys
import threading

import numpy as np
import pytest

import onkel
from onkel import persist
from onkel.core.loop.one_row import UNFIT
from onkel.estimators import model as models
from onkel.saved import states

X = np.random.default_rng(0).normal(size=(4000, 3))
NAMES = np.where(X[:, 0] * X[:, 1] > 0, "yes", "no")
MAKE = {
    "classifier": (lambda **p: onkel.KernelClassifier(budget=48, gamma=0.5, **p), NAMES),
    "regressor": (lambda **p: onkel.KernelRegressor(budget=48, gamma=0.5, **p), np.sin(X[:, 0])),
}


@pytest.fixture(autouse=True)
def _restless():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def all_at_once(*jobs):
    """Run them in threads of their own; what one of them raises is raised here."""
    raised = []

    def careful(job):
        try:
            job()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=careful, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


@pytest.mark.parametrize("kind", MAKE)
def test_copies_in_other_threads_are_of_one_moment(kind):
    """Whatever a reader gets is the model after some number of examples, to the bit, and its file can be read."""
    make, y = MAKE[kind]
    model, done = make().partial_fit(X[:200], y[:200]), threading.Event()
    twin, moments = model.snapshot(), {}
    for t in range(200, 1200):
        moments[twin.state_.t] = persist.dumps(twin)
        twin.learn_one(X[t], y[t])
    moments[twin.state_.t] = persist.dumps(twin)
    read = []

    def write():
        for t in range(200, 1200):
            model.learn_one(X[t], y[t])
            if t % 7 == 0:
                pause.wait(1e-4)
        done.set()

    def reading(how):
        def job():
            while not done.is_set():
                again = how(model)
                read.append(again.state_.t)
                assert persist.dumps(again) == moments[again.state_.t]

        return job

    pause = threading.Event()
    ways = (
        lambda m: m.snapshot(),
        copy.deepcopy,
        lambda m: pickle.loads(pickle.dumps(m)),
        lambda m: persist.loads(persist.dumps(m)),
    )
    all_at_once(write, *map(reading, ways))
    assert persist.dumps(model) == moments[1200]
    assert len(set(read)) > 3


@pytest.mark.parametrize("kind", MAKE)
def test_several_threads_that_learn_one_model_lose_nothing(kind):
    make, y = MAKE[kind]
    model = make()
    answers = []

    def one_by_one(first):
        def job():
            for t in range(first, 3000, 3):
                model.learn_one(X[t], y[t])

        return job

    def in_blocks():
        for t in range(3000, 4000, 50):
            model.partial_fit(X[t : t + 50], y[t : t + 50])

    def asking():
        for t in range(400):
            if model.model_ is not None:
                answers.append(model.predict_one(X[t]))

    all_at_once(*map(one_by_one, range(3)), in_blocks, asking)
    assert model.state_.t == 4000
    assert np.isfinite(model.state_.coef).all()
    states.check(model.learner_, model.state_)


@pytest.mark.parametrize("kind", MAKE)
def test_a_short_way_that_was_found_before_somebody_else_learned_is_closed(kind):
    make, y = MAKE[kind]
    model = make().partial_fit(X[:200], y[:200])
    for t in range(200, 205):
        model.learn_one(X[t], y[t])
        model.predict_one(X[t])
        found, looked = model.model_.take, model.model_.look
        model.partial_fit(X[t : t + 10 * (t % 2) + 1], y[t : t + 10 * (t % 2) + 1])  # in place, and on a copy
        assert found(X[t], 0.0) == UNFIT
        assert not looked(X[t]) >= 0
    assert model.state_.t == 200 + 2 * 5 + 2 * 10


def test_classes_that_come_while_others_learn():
    model = onkel.KernelClassifier(budget=32, gamma=0.5)

    def bringing(name):
        def job():
            for t in range(200):
                model.learn_one(X[t], f"{name}{t // 40}")

        return job

    all_at_once(*map(bringing, "abc"))
    assert model.state_.t == 600
    assert len(model.classes_) == 15
    states.check(model.learner_, model.state_)


def test_without_the_lock_of_python_everybody_takes_turns(monkeypatch):
    """Free-threaded Python has no call that nothing interrupts: the short way stays closed there."""
    monkeypatch.setattr(models, "ONE_AT_A_TIME", False)
    make, y = MAKE["regressor"]
    model, other = make().partial_fit(X[:200], y[:200]), make().partial_fit(X[:200], y[:200])
    model.learn_one(X[200], y[200])
    assert model.model_.take is None
    monkeypatch.undo()
    other.learn_one(X[200], y[200])
    assert other.model_.take is not None
    assert persist.dumps(model) == persist.dumps(other)
