"""Every door, many times, good calls and hostile ones mixed: what is refused changes nothing, what is learned stays finite."""

import os
import random
import resource
import threading

import numpy as np
import pytest

import onkel
from onkel import persist

CALLS = int(os.environ.get("ONKEL_SOAK", "1000000"))
HOSTILE = (
    None,
    "text",
    [],
    [[1.0]],
    np.array([np.nan, 0.0, 0.0]),
    np.array([1e308, 1e308, -1e308]),
    np.zeros(7),
    {},
    b"\xff",
    np.inf,
    object(),
)


def calls(model, chance, rng):
    """One call of some door; whether it was a good one."""
    x, y = rng.normal(size=3), "abc"[chance.randrange(3)]
    if isinstance(model, onkel.KernelRegressor):
        y = float(x[0])
    supervised = not isinstance(model, onkel.NoveltyDetector)
    hostile = chance.random() < 0.2
    if hostile:
        x = chance.choice(HOSTILE)
        y = y if chance.random() < 0.5 else chance.choice([None, np.nan, [], {}, np.inf])
    target = (y,) if supervised else ()
    match chance.randrange(10):
        case 0 | 1 | 2 | 3:
            model.learn_one(x, *target)
        case 4 | 5 | 6:
            model.predict_one(x)
        case 7:
            model.partial_fit([x, x], *([[y, y]] if supervised else []))
        case 8:
            model.predict([x])
        case 9:
            model.partial_fit(np.zeros((0, 3)), *([[]] if supervised else [])) if hostile else model.snapshot()


def soak(model, count, seed):
    chance, rng = random.Random(seed), np.random.default_rng(seed)
    for k in range(count):
        try:
            calls(model, chance, rng)
        except (ValueError, TypeError, AttributeError, FloatingPointError, OverflowError):
            pass
        if k % 10_000 == 9_999:
            assert np.isfinite(model.state_.coef).all()
            again = persist.loads(persist.dumps(model))
            np.testing.assert_array_equal(again.state_.coef, model.state_.coef)


def makers():
    yield lambda: onkel.KernelClassifier(budget=20)
    yield lambda: onkel.KernelRegressor(budget=20)
    yield lambda: onkel.NoveltyDetector(budget=20)
    yield lambda: onkel.KernelClassifier(budget=20, step="explicit", drop="oldest")
    yield lambda: onkel.KernelRegressor(budget=20, step="adaptive", drop="oldest")


@pytest.mark.parametrize("make", list(makers()))
def test_a_short_soak(make):
    soak(make(), 500, 0)


@pytest.mark.slow
def test_a_million_calls_over_all_doors():
    """ONKEL_SOAK sets how many."""
    models = [make() for make in makers()]
    for model in models:
        soak(model, 2_000, 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed, model in enumerate(models):
        soak(model, CALLS // len(models), seed)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


@pytest.mark.slow
def test_readers_beside_a_writer():
    """One thread learns, others look and save; nobody meets half of a step."""
    model, failed, stop = onkel.KernelClassifier(budget=20).partial_fit(np.eye(3), list("abc")), [], threading.Event()

    def read(seed):
        rng = np.random.default_rng(seed)
        try:
            while not stop.is_set():
                model.predict_one(rng.normal(size=3))
                assert np.isfinite(persist.loads(persist.dumps(model)).state_.coef).all()
        except Exception as error:
            failed.append(error)

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for reader in readers:
        reader.start()
    rng = np.random.default_rng(9)
    for _ in range(50_000):
        x = rng.normal(size=3)
        model.learn_one(x, "abc"[int(x.argmax())])
    stop.set()
    for reader in readers:
        reader.join()
    assert not failed
