"""Hard input at every door: it works and the model stays finite, or one clear error comes before anything has changed."""


import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import onkel
from onkel import persist
from tests.estimators.doors import DOORS, KINDS, RBF, REFUSALS, EstimatorDoor, Hinge, LearnerDoor, aims, attempt, data, silk

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
