"""Hard input at every door: it works and the model stays finite, or one clear error comes before anything has changed."""

import gc
import json
import os
import resource
import threading
import time
import warnings
from collections import Counter
from contextlib import closing, suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import onkel
from onkel import cli, persist
from onkel.commands.rows import BadRow, BadTable
from onkel.commands.scorecard import Scale
from onkel.commands.tables import Reader, Table

RBF, Hinge = onkel.RBF(1.0), onkel.Hinge()
REFUSALS = (ValueError, TypeError, FloatingPointError)


def silk(**options):
    return onkel.silk(RBF, Hinge, **{"budget": 8, **options})


def data(n, d=3, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, np.where(X[:, 0] > 0, 1.0, -1.0)


# --- the doors, all alike: learn, score, and a picture of everything inside ------------------------------------------------------


class LearnerDoor:
    targets = "signs"

    def __init__(self):
        self.learner = silk()
        self.state = self.learner.init()

    def learn(self, X, y):
        self.state, _ = self.learner.learn(self.state, X, y)

    def score(self, X):
        return self.learner.score(self.state, X)

    def picture(self):
        return persist.dumps((self.learner, self.state))


class EstimatorDoor:
    def __init__(self, kind, **options):
        self.targets = {"KernelClassifier": "classes", "KernelRegressor": "reals", "NoveltyDetector": "none"}[kind]
        self.model = getattr(onkel, kind)(budget=8, gamma=0.5, **options)

    def learn(self, X, y):
        self.model.partial_fit(X) if self.targets == "none" else self.model.partial_fit(X, y)

    def score(self, X):
        return self.model.predict(X) if self.targets == "reals" else self.model.decision_function(X)

    def picture(self):
        return persist.dumps(self.model)


class RiverDoor(EstimatorDoor):
    def __init__(self, kind):
        from onkel import river

        super().__init__(kind)
        self.model = getattr(river, kind)(budget=8, gamma=0.5)

    def learn(self, X, y):
        X = np.asarray(X)
        for i, row in enumerate(X):
            x = {f"x{j}": value for j, value in enumerate(np.atleast_1d(row).tolist())}
            self.model.learn_one(x) if self.targets == "none" else self.model.learn_one(x, np.asarray(y)[i].item())

    def score(self, X):
        predict = {"classes": "predict_proba_one", "reals": "predict_one", "none": "score_one"}[self.targets]
        scores = [getattr(self.model, predict)({f"x{j}": v for j, v in enumerate(row)}) for row in np.asarray(X).tolist()]
        return np.array([list(score.values()) if isinstance(score, dict) else score for score in scores], float)


KINDS = ("KernelClassifier", "KernelRegressor", "NoveltyDetector")
DOORS = {
    "learner": LearnerDoor,
    **{kind: (lambda kind=kind: EstimatorDoor(kind)) for kind in KINDS},
    **{f"river {kind}": (lambda kind=kind: RiverDoor(kind)) for kind in KINDS},
}


def aims(door, n, seed=0):
    rng = np.random.default_rng(seed) if isinstance(seed, int) else seed
    signs = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return np.where(signs > 0, "yes", "no") if door.targets == "classes" else signs


def attempt(door, X, y):
    """Learn; True if it went in and all is finite, False if it was refused and nothing has changed."""
    before = door.picture()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            door.learn(X, y)
        refused = ""
    except REFUSALS as error:
        refused = str(error)
    if refused:
        assert len(refused) > 10
        assert door.picture() == before, f"changed by what it refused: {refused}"
        return False
    persist.loads(door.picture())  # which checks that the state is sound and finite
    return True


@pytest.fixture(params=DOORS)
def door(request):
    door = DOORS[request.param]()
    X, _ = data(30)
    door.learn(X, aims(door, 30))
    return door


# --- numbers ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 7])
def test_what_is_not_finite_is_refused(door, value, place):
    X, _ = data(8, seed=1)
    X[place, 1] = value
    if "river" in type(door).__name__.lower():
        X = X[place:]  # River takes one row at a time; those before the bad one are learned
    assert not attempt(door, X, aims(door, len(X)))
    with pytest.raises(REFUSALS):
        door.score(X)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_targets_that_are_not_finite_are_refused(door, value):
    if door.targets in ("none", "classes"):
        pytest.skip("no numbers as targets")
    X, y = data(1, seed=1)
    assert not attempt(door, X, y * value)


@pytest.mark.parametrize("value", [1e308, -1e308, 1e200, 1e155, 1e-308, 5e-324, -0.0, 1e16])
def test_huge_and_denormal_numbers(door, value):
    X, _ = data(6, seed=1)
    X[3:] = value
    attempt(door, X, aims(door, 6))
    X, _ = data(20, seed=2)
    assert attempt(door, X, aims(door, 20)), "and it goes on afterwards"
    assert np.isfinite(door.score(X)).all()


@settings(max_examples=60)
@given(X=hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.just(3)), elements=st.floats(width=64)), seed=st.integers(0, 3))
@pytest.mark.parametrize("name", ["learner", *KINDS])
def test_any_doubles(name, X, seed):
    door = DOORS[name]()
    start, _ = data(10)
    door.learn(start, aims(door, 10))
    went = attempt(door, X, aims(door, len(X), seed))
    assert went <= np.isfinite(X).all()
    assert np.isfinite(door.score(start)).all()


@settings(max_examples=60)
@given(y=hnp.arrays(np.float64, 4, elements=st.floats(width=64)))
def test_any_real_targets(y):
    door = EstimatorDoor("KernelRegressor")
    X, _ = data(4)
    door.learn(X, np.ones(4))
    assert attempt(door, X, y) <= np.isfinite(y).all()
    assert np.isfinite(door.score(X)).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("degree", [3, 9, 60])
def test_polynomials_that_overflow(dtype, degree):
    learner = onkel.silk(onkel.Polynomial(degree), Hinge, budget=4)
    state = learner.init()
    for scale in (1.0, 10.0, 1e3, 1e5, 1e20):
        X, y = data(10, seed=3)
        X = (X * scale).astype(dtype)
        before = persist.dumps((learner, state))
        try:
            state, _ = learner.learn(state, X, y)
        except REFUSALS:
            assert persist.dumps((learner, state)) == before
        persist.loads(persist.dumps((learner, state)))


@pytest.mark.parametrize("sigma", [1e-300, 1e-160, 1e-8, 1e8, 1e160, 1e300])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [3, 200])
def test_kernels_that_are_the_identity_or_one(sigma, dtype, d):
    X, y = data(60, d=d)
    learner = onkel.silk(onkel.RBF(sigma), Hinge, budget=150)
    state, trace = learner.learn(learner.init(), X.astype(dtype), y)
    scores = learner.score(state, X.astype(dtype))
    assert np.isfinite(scores).all()
    if sigma < 1e-6:
        assert np.allclose(np.abs(scores), np.abs(state.coef), atol=1e-6)  # each point knows itself alone
        assert np.allclose(trace.scores, 0.0)
    if sigma > 1e6:
        assert np.ptp(scores) < 1e-5 + 1e-5 * np.abs(scores).max()


@pytest.mark.parametrize("gamma", [1e-300, 1e-30, 1e30, 1e300])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "matern", "poly"])
def test_any_gamma_in_an_estimator(gamma, kernel):
    X, y = data(40)
    model = onkel.KernelClassifier(kernel=kernel, gamma=gamma, budget=8)
    try:
        model.fit(X, y)
    except REFUSALS:
        return
    assert np.isfinite(model.decision_function(X)).all()
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("drop", ["oldest", "smallest", "merge", "project"])
def test_a_budget_of_one(drop):
    X, y = data(200)
    learner = onkel.Learner(RBF, Hinge, onkel.Implicit(), onkel.Budget(1, drop))
    state, _ = learner.learn(learner.init(), X, y)
    assert state.size == 1
    assert np.isfinite(learner.score(state, X)).all()


@pytest.mark.parametrize("drop", ["oldest", "smallest", "merge", "project"])
def test_the_same_point_again_and_again(drop):
    """A Gram matrix of ones: nothing may blow up; a point that is there already needs no second place."""
    X = np.ones((5_000, 4))
    y = np.where(np.arange(5_000) % 3 > 0, 1.0, -1.0)
    learner = onkel.Learner(RBF, Hinge, onkel.Implicit(), onkel.Budget(16, drop))
    state, _ = learner.learn(learner.init(), X, y)
    assert np.abs(learner.score(state, X[:1])).max() < 10
    persist.loads(persist.dumps((learner, state)))


@pytest.mark.slow
def test_a_million_rows_of_the_same_point():
    X = np.broadcast_to(np.ones(4), (1_000_000, 4))
    for model in (onkel.KernelClassifier(budget=16), onkel.NoveltyDetector(budget=16), onkel.KernelRegressor(budget=16)):
        y = np.where(np.arange(1_000_000) % 3 > 0, 1, -1)
        model.fit(X, y)
        assert np.isfinite(model.state_.coef).all()
        assert model.state_.size <= 16


def test_constant_features(door):
    X, _ = data(50, seed=4)
    X[:, 1:] = 7.5
    assert attempt(door, X, aims(door, 50))
    assert np.isfinite(door.score(X)).all()


# --- arrays of every kind --------------------------------------------------------------------------------------------------------

SHAPES = {
    "fortran": np.asfortranarray,
    "every other row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "backwards": lambda X: X[::-1][::-1],
    "columns apart": lambda X: np.repeat(X, 3, axis=1)[:, ::3],
    "read-only": lambda X: _frozen(X),
    "list": lambda X: X.tolist(),
    "objects": lambda X: X.astype(object),
    "big-endian": lambda X: X.astype(X.dtype.newbyteorder(">")),
    "subclass": lambda X: np.asarray(X).view(type("Odd", (np.ndarray,), {})),
    "unaligned": lambda X: _unaligned(X),
}


def _frozen(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def _unaligned(X):
    raw = np.zeros(X.nbytes + 1, np.uint8)
    view = raw[1:].view(X.dtype).reshape(X.shape)
    view[:] = X
    return view


@pytest.mark.parametrize("name", ["learner", *KINDS])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_layout_in_memory_does_not_matter(name, shape):
    X, _ = data(40, seed=5)
    plain, odd = DOORS[name](), DOORS[name]()
    plain.learn(X, aims(plain, 40))
    given_rows = SHAPES[shape](X)
    odd.learn(given_rows, aims(odd, 40))
    assert odd.picture() == plain.picture()
    assert np.array_equal(odd.score(given_rows), plain.score(X))


@pytest.mark.parametrize("name", ["learner", *KINDS])
def test_memory_maps(name, tmp_path):
    X, _ = data(40, seed=5)
    np.save(tmp_path / "X.npy", X)
    plain, mapped = DOORS[name](), DOORS[name]()
    plain.learn(X, aims(plain, 40))
    mapped.learn(np.load(tmp_path / "X.npy", mmap_mode="r"), aims(mapped, 40))
    assert mapped.picture() == plain.picture()


NUMBERS = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "longdouble",
]


@pytest.mark.parametrize("name", ["learner", *KINDS])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_numbers_of_every_size(name, dtype):
    X = (np.arange(40).reshape(20, 2) % 7).astype(dtype)
    door = DOORS[name]()
    assert attempt(door, X, aims(door, 20))
    assert np.isfinite(door.score(X)).all()


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((0, 3)),
        np.zeros((3, 0)),
        np.zeros(3),
        np.zeros((2, 3, 4)),
        np.zeros((2, 4)),
        np.zeros(()),
        np.array([["a", "b", "c"]]),
        np.array([[1j, 0, 0]]),
        np.array([[None, 1.0, 2.0]], object),
        [[1.0, 2.0], [3.0]],
        [],
        "text",
        None,
        3.0,
        {"x": [1.0]},
    ],
    ids=lambda X: repr(X)[:40].replace("\n", ""),
)
@pytest.mark.parametrize("name", ["learner", *KINDS])
def test_what_is_no_table_of_three_columns_is_refused(name, X):
    door = DOORS[name]()
    start, _ = data(30)
    door.learn(start, aims(door, 30))
    try:
        n = len(X)
    except TypeError:
        n = 1
    assert not attempt(door, X, aims(door, n))


def test_one_row_at_a_time(door):
    for i in range(5):
        X, _ = data(1, seed=i)
        assert attempt(door, X, aims(door, 1, seed=i))


@pytest.mark.parametrize(
    "y", [[1.0], [1.0, -1.0, 1.0], [[1.0], [-1.0]], ["a", "b"], [0.0, 1.0], [None, 1.0], None, 1.0, [1j, 1j]], ids=repr
)
def test_targets_that_do_not_fit_are_refused_by_the_learner(y):
    door = LearnerDoor()
    X, start = data(2)
    door.learn(X, start)
    assert not attempt(door, X, y)


@pytest.mark.parametrize("weight", [[1.0], [-1.0, 1.0], [np.nan, 1.0], "a", [[1.0, 1.0]]], ids=repr)
def test_weights_that_do_not_fit_are_refused(weight):
    X, y = data(2)
    learner = silk()
    with pytest.raises(REFUSALS):
        learner.learn(learner.init(), X, y, sample_weight=weight)
    for kind in KINDS:
        with pytest.raises(REFUSALS):
            getattr(onkel, kind)().fit(X, y, sample_weight=weight)


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


# --- tables ----------------------------------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(
    noise=st.binary(max_size=400), ending=st.sampled_from([".csv", ".ndjson", ".parquet", ".csv.gz", ".tsv"]), skip=st.booleans()
)
def test_any_bytes_as_a_table(noise, ending, skip, tmp_path_factory):
    path = tmp_path_factory.mktemp("noise") / f"a{ending}"
    path.write_bytes(noise)
    with suppress(BadTable), closing(Table(str(path))) as table:
        for block in Reader(table, table.columns[:2], None).blocks(iter(table), stop=not skip):
            assert np.isfinite(block.X).all()


@settings(max_examples=150)
@given(
    rows=st.lists(
        st.lists(st.text(st.characters(codec="utf-8"), max_size=6) | st.floats().map(repr), min_size=1, max_size=4), max_size=12
    ),
    target=st.booleans(),
)
def test_any_text_as_rows(rows, target, tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "a.csv"
    path.write_text("a,b,y\n" + "\n".join(",".join(row) for row in rows), encoding="utf-8")
    table = Table(str(path))
    try:
        good = bad = 0
        for block in Reader(table, ["a", "b"], "y" if target else None, reals=True).blocks(iter(table)):
            assert np.isfinite(block.X).all()
            assert len(block.X) == len(block.y)
            assert all(isinstance(error, BadRow) and "line" in str(error) for error in block.bad)
            good, bad = good + len(block.X), bad + len(block.bad)
            assert block.read == len(block.X) + len(block.bad)
    finally:
        table.close()


@settings(max_examples=25)
@given(draw=st.data())
def test_any_table_through_the_whole_command(tmp_path_factory, draw):
    folder = tmp_path_factory.mktemp("run")
    cell = st.sampled_from(["1", "0.5", "-3e5", "1e300", "nan", "", "x", "1e-320", "inf", "7"])
    rows = draw.draw(st.lists(st.tuples(cell, cell, st.sampled_from(["a", "b", "c", "", "日"])), max_size=40))
    (folder / "a.csv").write_text("u,v,y\n" + "\n".join(",".join(row) for row in rows))
    model = draw.draw(st.sampled_from(["silk", "norma"]))
    words = f"run {folder}/a.csv --target y --task classes --model {model} --budget 8 --out {folder}/o --no-figure -q --on-error"
    status = cli.main([*words.split(), draw.draw(st.sampled_from(["skip", "stop"]))])
    assert status in (0, 1)
    if (folder / "o.json").exists():
        report = json.loads((folder / "o.json").read_text())
        assert report["rows"] + report["bad_rows"] <= len(rows)
        onkel.load(folder / "o.onkel")


@settings(max_examples=80)
@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 20), st.just(2)), elements=st.floats(-1e150, 1e150)))
def test_scaling_any_numbers_stays_finite(X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(Scale(2).scaled(X)).all()


def test_memory_is_bounded_by_the_block(tmp_path, monkeypatch):
    """Fifty times the rows, the same memory."""
    import tracemalloc

    def peak(n):
        path = tmp_path / f"{n}.csv"
        with open(path, "w") as stream:
            stream.write("a,b,y\n")
            stream.writelines(f"{i % 17},{i % 13},{'ab'[i % 2]}\n" for i in range(n))
        table = Table(str(path))
        tracemalloc.start()
        for _ in Reader(table, ["a", "b"], "y").blocks(iter(table)):
            pass
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        table.close()
        return used

    assert peak(100_000) < 1.5 * peak(2_000) + 100_000


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
