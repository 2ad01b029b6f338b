"""Hard streams: frames and labels of every kind, threads, Ctrl-C, and a soak of all doors at once."""

import gc
import os
import resource
import threading
import time
from collections import Counter

import numpy as np
import pytest

import onkel
from onkel import persist
from tests.estimators.doors import DOORS, KINDS, REFUSALS, EstimatorDoor, RiverDoor, aims, attempt, data

# --- frames and labels -----------------------------------------------------------------------------------------------------------


def test_frames_with_two_columns_of_one_name():
    import pandas as pd

    X, y = data(40, d=3)
    frame = pd.DataFrame(X, columns=["a", "b", "a"])
    model = onkel.KernelClassifier(budget=8)
    before = persist.dumps(model)
    try:
        model.fit(frame, y)
    except REFUSALS:
        assert persist.dumps(model) == before
        return
    assert np.array_equal(model.predict(frame), model.predict(frame))
    assert model.n_features_in_ == 3


LABELS = {
    "unicode": ["ä", "日本", "🦆", "", " "],
    "numbers": [3, 1, 2],
    "negative": [-5, 7],
    "huge": [2**62, -(2**62)],
    "booleans": [True, False],
    "long": ["a" * 1000, "b"],
}


@pytest.mark.parametrize("kind", LABELS)
def test_classes_of_many_kinds(kind):
    X, _ = data(60)
    names = np.array(LABELS[kind])
    y = names[np.arange(60) % len(names)]
    model = onkel.KernelClassifier(budget=8, gamma=0.5).partial_fit(X[:30], y[:30]).partial_fit(X[30:], y[30:])
    assert set(model.classes_) == set(names)
    assert set(model.predict(X)) <= set(names)
    again = persist.loads(persist.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    "y", [[1, "a", None, 2.5] * 5, [(1, 2), (3,)] * 10, [np.nan, 1.0] * 10, [{}, {}] * 10], ids=lambda y: repr(y[:2])
)
def test_labels_of_mixed_types_work_or_are_refused(y):
    X, _ = data(20)
    mixed = np.empty(20, object)
    mixed[:] = y
    door = EstimatorDoor("KernelClassifier")
    door.learn(X, ["known"] * 20)
    if attempt(door, X, mixed):
        assert set(map(repr, door.model.predict(X))) <= {"'known'", *map(repr, mixed)}


def test_one_class_only():
    X, _ = data(50)
    model = onkel.KernelClassifier(budget=8, gamma=0.5).partial_fit(X, ["only"] * 50)
    assert set(model.predict(X)) == {"only"}
    assert np.allclose(model.predict_proba(X), 1.0)
    model.partial_fit(X, ["other"] * 50)
    assert np.isfinite(model.decision_function(X)).all()


def test_a_label_first_seen_at_row_100_000():
    X, y = data(100_010, d=2)
    names = np.where(y > 0, "right", "left").astype(object)
    X[100_000:] = 9.0
    names[100_000:] = "far"
    model = onkel.KernelClassifier(budget=64, gamma=0.5).fit(X, names)
    assert list(model.classes_) == ["far", "left", "right"]
    assert model.predict([[9.0, 9.0]])[0] == "far"


def test_features_come_and_go_in_river():
    from onkel import river

    model = river.KernelClassifier(budget=8, gamma=0.5)
    rng = np.random.default_rng(0)
    for _ in range(300):
        names = rng.choice(list("abcdefgh"), rng.integers(0, 5), replace=False)
        x = {name: rng.normal() for name in names}
        model.predict_proba_one(x)
        model.learn_one(x, bool(x.get("a", 0) > 0))
    assert np.isfinite(list(model.predict_proba_one({"a": 1.0, "unseen": 3.0}).values())).all()
    persist.loads(persist.dumps(model))


@pytest.mark.parametrize(
    "x",
    [{"x0": "text", "x1": 0.0, "x2": 0.0}, {"x0": None, "x1": 0.0, "x2": 0.0}, {"new": np.nan}, {"new": "text"}, {"x0": [1, 2]}],
)
def test_river_refuses_before_anything_changes(x):
    for kind in KINDS:
        door = RiverDoor(kind)
        X, _ = data(5)
        door.learn(X, aims(door, 5))
        before = door.picture()
        with pytest.raises(REFUSALS):
            door.model.learn_one(x) if door.targets == "none" else door.model.learn_one(x, aims(door, 1)[0].item())
        assert door.picture() == before


# --- threads and Ctrl-C ----------------------------------------------------------------------------------------------------------


def test_scoring_a_snapshot_while_the_model_learns():
    X, y = data(60_000, d=4)
    model = onkel.KernelClassifier(budget=64, gamma=0.5).partial_fit(X[:500], y[:500])
    still = model.snapshot()
    expected = still.decision_function(X[:200])
    wrong, stop = [], threading.Event()

    def look():
        while not stop.is_set():
            if not np.array_equal(still.decision_function(X[:200]), expected):
                wrong.append(1)

    readers = [threading.Thread(target=look) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for start in range(500, 60_000, 1000):
            model.partial_fit(X[start : start + 1000], y[start : start + 1000])
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert not wrong
    assert not np.array_equal(model.decision_function(X[:200]), expected)


def test_ctrl_c_leaves_the_last_whole_block(monkeypatch):
    from onkel.estimators import attempt

    X, y = data(5 * attempt.BLOCK)
    wanted = onkel.KernelClassifier(budget=8, gamma=0.5).fit(X[: 2 * attempt.BLOCK], y[: 2 * attempt.BLOCK])
    from onkel.estimators.model import Model

    learn, calls = Model.learn, []

    def interrupted(self, *arguments, **options):
        if not options:  # a block, not a part of one
            calls.append(1)
        if len(calls) == 3:
            learn(self, *arguments, **options)  # in the middle of the third block
            raise KeyboardInterrupt
        return learn(self, *arguments, **options)

    monkeypatch.setattr(Model, "learn", interrupted)
    model = onkel.KernelClassifier(budget=8, gamma=0.5)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    monkeypatch.undo()
    assert model.state_.t == 2 * attempt.BLOCK
    assert persist.dumps(model) == persist.dumps(wanted)
    model.partial_fit(X[2 * attempt.BLOCK :], y[2 * attempt.BLOCK :])


# --- the soak --------------------------------------------------------------------------------------------------------------------

CALLS = int(os.environ.get("ONKEL_SOAK", "1000000"))
SECONDS = float(os.environ.get("ONKEL_SOAK_SECONDS", "420"))


class Soak:
    """Random calls on every door, hard ones among them; counts what happened."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.doors = {name: make() for name, make in DOORS.items()}
        # the doors that take microseconds are called more often than those that ask scikit-learn first
        self.names = [name for name in DOORS for _ in range(1 if name in KINDS else 5 if "river" in name else 10)]
        self.count = Counter()
        for name in self.doors:
            self.begin(name)

    def begin(self, name):
        """With doubles first: a model keeps the type that it began with, and each type compiles code of its own."""
        self.doors[name] = door = DOORS[name]()
        X, _ = data(10)
        door.learn(X, aims(door, 10))

    def rows(self):
        rng = self.rng
        X = rng.normal(size=(int(rng.integers(1, 9)), 3)) * 10.0 ** rng.integers(-3, 4)
        spoil = rng.random()
        if spoil < 0.05:
            X[rng.integers(len(X)), rng.integers(3)] = rng.choice([np.nan, np.inf, -np.inf])
        elif spoil < 0.10:
            X[rng.integers(len(X)), rng.integers(3)] = rng.choice([1e300, -1e200, 1e155, 5e-324, 1e-310])
        elif spoil < 0.12:
            X = X[:, :2]
        elif spoil < 0.15:
            X[:] = X[0]
        elif spoil < 0.20:
            X = np.asfortranarray(X.astype(rng.choice(["f4", "f8"])))
        return X

    def call(self):
        rng = self.rng
        name = self.names[rng.integers(len(self.names))]
        door, X = self.doors[name], self.rows()
        if "river" in name:
            X = X[:1]
        kind = rng.random()
        try:
            if kind < 0.6:
                door.learn(X, aims(door, len(X), rng))
                self.count["learned"] += 1
            elif kind < 0.99:
                scores = door.score(X)
                assert np.isfinite(scores).all(), (name, X, scores)
                self.count["scored"] += 1
            elif kind < 0.995:
                picture = door.picture()
                if door.targets != "signs":
                    door.model = persist.loads(picture)
                else:
                    door.learner, door.state = persist.loads(picture)
                assert door.picture() == picture
                self.count["saved and loaded"] += 1
            elif kind < 0.997:
                self.begin(name)
                self.count["begun anew"] += 1
            else:
                blob = bytearray(door.picture())
                blob[rng.integers(len(blob))] ^= 1 << rng.integers(8)
                try:
                    persist.loads(bytes(blob))
                except persist.BadFile:
                    pass
                self.count["damaged file"] += 1
        except REFUSALS as error:
            if type(error).__name__ == "NotFittedError" or np.isfinite(X).all():
                self.count[f"refused: {type(error).__name__}"] += 1
            else:
                self.count["refused: not finite"] += 1


def resident():
    with open("/proc/self/statm") as stat:
        return int(stat.read().split()[1]) * resource.getpagesize()


def soak(calls, seconds, seed=0):
    run, end = Soak(seed), time.monotonic() + seconds
    memory = []
    for i in range(calls):
        run.call()
        if i % 1000 == 999:
            for name, door in run.doors.items():
                try:
                    persist.loads(door.picture())
                except persist.BadFile as error:  # the state is unsound
                    raise AssertionError(f"{name} after {i + 1} calls: {error}") from error
            gc.collect()
            memory.append(resident())
            if time.monotonic() > end:
                break
    return run.count, memory


def test_a_short_soak():
    count, _ = soak(3000, 60)
    assert sum(count.values()) == 3000
    assert count["learned"] > 1000
    assert count["refused: not finite"] > 20


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is measured through /proc")
def test_the_long_soak(capsys):
    """ONKEL_SOAK calls (a million unless set), at most ONKEL_SOAK_SECONDS: no crash, no leak, no state that is not finite."""
    soak(2000, 120, seed=1)  # compiles what is to be compiled
    begun = time.monotonic()
    count, memory = soak(CALLS, SECONDS)
    total, half = sum(count.values()), len(memory) // 2
    with capsys.disabled():
        listed = ", ".join(f"{number} {what}" for what, number in sorted(count.items()))
        print(f"\nsoak: {total} calls in {time.monotonic() - begun:.0f} s; {listed}")
        first, middle, last = (f"{memory[i] / 2**20:.0f}" for i in (0, half, -1))
        print(f"soak: memory {first} MiB after 1000 calls, {middle} half way, {last} at the end")
    assert memory[-1] < memory[half] + 16 * 2**20, "memory grows"
    assert total == CALLS or time.monotonic() - begun >= SECONDS
