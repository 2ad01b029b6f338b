"""The scikit-learn door: its own checks, the same model however a stream is cut, late classes, weights, frames, snapshots."""

import copy
import io
import pickle
import threading

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_moons
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import onkel
from onkel import KernelClassifier, KernelRegressor, NoveltyDetector
from onkel.core.loop import layout
from onkel.core.points.missing import Observed, with_mask
from onkel.estimators import attempt
from onkel.estimators.plan import spread_gamma
from onkel.estimators.reshape import grow_labels, keep_newest

ORDER = "an online learner depends on the order of the rows, which this check shuffles; test_weights_* say what holds instead"


def expected(estimator):
    names = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")
    return dict.fromkeys(names, ORDER)


@parametrize_with_checks([KernelClassifier(), KernelRegressor(), NoveltyDetector()], expected_failed_checks=expected)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def stream_of_classes(n=320, seed=0):
    """Three blobs; the class "b" first comes at row 40, "a" at row 200."""
    rng = np.random.default_rng(seed)
    centers = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
    code = np.where(np.arange(n) < 40, 0, np.where(np.arange(n) < 200, rng.integers(0, 2, n), rng.integers(0, 3, n)))
    return centers[code] + 0.6 * rng.normal(size=(n, 2)), np.array(["c", "b", "a"])[code]


def same(one, other):
    return all(np.array_equal(getattr(one.state_, name), getattr(other.state_, name)) for name in ("coef", "points", "born", "t"))


# --- one stream, one model --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 7, 150])
@pytest.mark.parametrize("options", [{}, {"loss": "logistic", "offset": True}, {"step": "adaptive", "drop": "oldest"}], ids=str)
def test_the_cut_does_not_matter_though_classes_turn_up(cut, options):
    X, y = stream_of_classes()
    whole = KernelClassifier(budget=24, **options).fit(X, y)
    parts = KernelClassifier(budget=24, **options)
    scores = []
    for start in range(0, len(X), cut):
        parts.partial_fit(X[start : start + cut], y[start : start + cut])
        scores.append(parts.trace_.mistake)
    assert list(parts.classes_) == ["a", "b", "c"]
    assert same(parts, whole)
    assert np.array_equal(parts.predict_proba(X), whole.predict_proba(X))
    assert np.array_equal(np.concatenate(scores), whole.trace_.mistake)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_learn_one_is_partial_fit_to_the_bit(dtype):
    X, y = stream_of_classes()
    X = X.astype(dtype)
    block, one = KernelClassifier(budget=24).partial_fit(X, y), KernelClassifier(budget=24)
    for x, label in zip(X, y):
        one.learn_one(x, str(label))
    assert same(one, block)
    assert np.array_equal(one.predict_proba(X), block.predict_proba(X))
    assert [one.predict_one(x) for x in X] == block.predict(X).tolist()
    assert one.state_.points.dtype == dtype


def test_learn_one_of_the_others():
    X, _ = stream_of_classes()
    target = X[:, 0] * X[:, 1]
    block, one = KernelRegressor(budget=24).partial_fit(X, target), KernelRegressor(budget=24)
    for x, value in zip(X, target):
        one.learn_one(x, value)
    assert same(one, block)
    assert np.array_equal(one.predict_interval(X), block.predict_interval(X))
    assert np.allclose([one.predict_one(x) for x in X], block.predict(X), atol=1e-12)
    assert one.predict_one(np.repeat(X[0], 2)[::2]) == one.predict_one(X[0])
    with pytest.raises(ValueError, match="NaN or infinity"):
        one.predict_one(X[0] * np.nan)
    one.learn_one(np.repeat(X[0], 2)[::2], 1.0)
    block, one = NoveltyDetector(budget=24).partial_fit(X), NoveltyDetector(budget=24)
    for x in X:
        one.learn_one(x)
    assert same(one, block)
    assert one.offset_ == block.offset_
    assert [one.predict_one(x) for x in X] == block.predict(X).tolist()


def test_one_row_at_a_time_by_every_way_in():
    """Budgets too large for the short way, schedules, lists, other dtypes, read-only and strided rows: the same model."""
    X, y = stream_of_classes()
    for options in ({"budget": None}, {"budget": 24, "eta": onkel.InvSqrt(1.0)}, {"budget": 13_000, "drop": "oldest"}):
        block, one = KernelClassifier(gamma=0.5, **options).partial_fit(X, y), KernelClassifier(gamma=0.5, **options)
        for i, (x, label) in enumerate(zip(X, y)):
            if i % 3 == 0:
                one.partial_fit(x.reshape(1, -1), [label])
            else:
                one.learn_one(x.tolist() if i % 3 == 1 else np.repeat(x, 2)[::2], str(label))
        assert np.allclose(one.decision_function(X), block.decision_function(X), atol=1e-10)
        assert one.predict_one(X[0].tolist()) == block.predict(X[:1])[0]


def test_gamma_is_that_of_the_first_hundred_and_stays():
    X, y = make_moons(300, noise=0.2, random_state=0)
    X[100:] *= 100.0
    for cut in (30, 300):
        model = KernelClassifier()
        for start in range(0, 300, cut):
            model.partial_fit(X[start : start + cut], y[start : start + cut])
        assert model.gamma_ == spread_gamma(X[:100])
        assert model.model_.first is None
    young = KernelClassifier().partial_fit(X[:40], y[:40])
    assert young.gamma_ == spread_gamma(X[:32]), "measured whenever the examples have doubled"
    assert spread_gamma(X[:100]) == pytest.approx(SVC(gamma="scale").fit(X[:100], y[:100])._gamma)


def test_float32_stays_float32():
    X, y = stream_of_classes()
    model = KernelClassifier(budget=16).partial_fit(X.astype(np.float32), y).partial_fit(X, y)
    assert model.state_.points.dtype == np.float32


def test_memory_is_what_it_says_and_stays():
    X, y = stream_of_classes()
    model = KernelClassifier(budget=16).fit(X, y)
    before = model.nbytes
    model.partial_fit(np.tile(X, (10, 1)), np.tile(y, 10))
    state = model.state_
    arrays = (state.num, state.slots, state.born, state.gram, model.model_.cells)
    assert model.nbytes == before == sum(a.nbytes for a in arrays)


# --- classes ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"step": "adaptive", "offset": True}], ids=str)
def test_a_new_class_leaves_the_scores_of_the_others(options):
    X, y = stream_of_classes()
    model = KernelClassifier(gamma=0.5, budget=24, **options).fit(X, y == "b")
    three = model.model_.plan.learner(0.5, 2, 3)
    for position in range(3):
        grown = grow_labels(model.state_, three, position)
        scores = three.score(grown, X)
        assert np.array_equal(np.delete(scores, position, axis=1), model._score(X))
        assert not scores[:, position].any()
        assert three.learn(grown, X, np.full(len(X), position))[0].size


def test_shapes_are_those_of_svc():
    X, y = stream_of_classes()
    for labels in (y, y == "b"):
        ours, theirs = KernelClassifier().fit(X, labels), SVC(decision_function_shape="ovr").fit(X, labels)
        assert ours.decision_function(X).shape == theirs.decision_function(X).shape
        assert np.array_equal(ours.classes_, theirs.classes_)
    digits = load_digits()
    model = KernelClassifier(budget=256).fit(digits.data[:1200], digits.target[:1200])
    assert model.score(digits.data[1200:], digits.target[1200:]) > 0.9


def test_announced_classes_and_labels_of_all_kinds():
    X = np.arange(6.0).reshape(-1, 1)
    model = KernelClassifier().partial_fit(X, [3, 3, 1, 1, 3, 1], classes=[1, 2, 3])
    assert model.predict_proba(X).shape == (6, 3)
    with pytest.raises(ValueError, match="not announced"):
        model.partial_fit(X, [1] * 6, classes=[1, 4])
    model.partial_fit(X, [4] * 6)
    assert model.classes_.tolist() == [1, 2, 3, 4]
    mixed = KernelClassifier()
    for x, label in zip(X, ["one", 1, None, (2, 3), True, "one"]):
        mixed.learn_one(x, label)
    assert mixed.classes_.tolist() == ["one", 1, None, (2, 3)]  # True is 1
    assert mixed.predict_one(X[3]) in mixed.classes_.tolist()


def test_a_hierarchy_of_classes():
    parents = {"cat": "mammal", "dog": "mammal", "trout": "fish", "salmon": "fish", "mammal": "animal", "fish": "animal"}
    rng = np.random.default_rng(3)
    leaves = np.array(["cat", "dog", "salmon", "trout"])
    code = rng.integers(0, 4, 600)
    X = np.array([[0.0, 0.0], [0.5, 0.0], [3.0, 0.0], [3.0, 0.5]])[code] + 0.3 * rng.normal(size=(600, 2))
    model = KernelClassifier(labels=parents).fit(X[:500], leaves[code[:500]])
    assert model.classes_.tolist() == leaves.tolist()
    found = model.predict(X[500:])
    score = model.hierarchical_score(X[500:], leaves[code[500:]])
    ancestors = {"cat": {"cat", "mammal", "animal"}, "dog": {"dog", "mammal", "animal"}}
    ancestors |= {"trout": {"trout", "fish", "animal"}, "salmon": {"salmon", "fish", "animal"}}
    pairs = [(ancestors[a], ancestors[b]) for a, b in zip(leaves[code[500:]], found)]
    assert score == pytest.approx(2 * sum(len(a & b) for a, b in pairs) / sum(len(a) + len(b) for a, b in pairs))
    assert score > accuracy_score(leaves[code[500:]], found) > 0.6
    numbered = KernelClassifier(labels=[-1, 0, 0, 1, 1, 2, 2]).fit(X[:500], code[:500])
    assert np.array_equal(leaves[numbered.predict(X)], model.predict(X))
    assert KernelClassifier().fit(X, code).hierarchical_score(X, code) == KernelClassifier().fit(X, code).score(X, code)
    with pytest.raises(ValueError, match="'bird' is not in labels"):
        model.partial_fit(X[:1], ["bird"])


# --- weights ----------------------------------------------------------------------------------------------------------------------


def test_weights_equal_repeats_exactly_for_the_hinge_without_forgetting():
    """One implicit step of weight w is w steps of weight 1: f moves along k(x, .) at the same pace until the margin holds."""
    X, y = stream_of_classes()
    y, weight = y == "b", np.random.default_rng(1).integers(0, 5, len(X))
    options = {"gamma": 0.5, "C": 0.05, "lam": 0.0, "budget": None}
    weighted = KernelClassifier(**options).fit(X, y, sample_weight=weight)
    repeated = KernelClassifier(**options).fit(X.repeat(weight, axis=0), y.repeat(weight))
    assert np.allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-12)
    assert weighted.state_.t == (weight > 0).sum()


def test_weights_equal_repeats_in_the_limit_of_small_steps():
    """For other losses both are ways to follow the same gradient flow: they differ by O(C^2) per step."""
    X, _ = stream_of_classes()
    weight = np.full(20, 3)
    gaps = []
    for C in (1e-2, 1e-3):
        options = {"gamma": 0.5, "C": C, "lam": 0.0, "budget": None, "offset": False}
        weighted = KernelRegressor(**options).fit(X[:20], X[:20, 0], sample_weight=weight)
        repeated = KernelRegressor(**options).fit(X[:20].repeat(weight, axis=0), X[:20, 0].repeat(weight))
        gaps.append(np.abs(weighted.predict(X) - repeated.predict(X)).max())
    assert gaps[0] > 0
    assert gaps[1] < gaps[0] / 60


def test_weight_is_a_factor_of_C_and_zero_is_absence():
    X, y = stream_of_classes()
    one = KernelClassifier(budget=24, gamma=0.5, C=1.5).fit(X, y)
    assert same(one, KernelClassifier(budget=24, gamma=0.5, C=0.5).fit(X, y, sample_weight=np.full(len(X), 3.0)))
    keep = np.arange(len(X)) % 3 > 0
    assert same(
        KernelClassifier(budget=24).fit(X, y, sample_weight=keep.astype(float)), KernelClassifier(budget=24).fit(X[keep], y[keep])
    )
    assert one.score(X, y, sample_weight=keep.astype(float)) == one.score(X[keep], y[keep])
    with pytest.raises(ValueError, match="must not be negative"):
        one.partial_fit(X, y, sample_weight=-np.ones(len(X)))


# --- scikit-learn's and other people's containers ---------------------------------------------------------------------------------


def test_pipelines_grids_and_cross_validation():
    X, y = make_moons(240, noise=0.15, random_state=1)
    pipe = make_pipeline(StandardScaler(), KernelClassifier()).set_output(transform="pandas")
    grid = {
        f"kernelclassifier__{name}": values
        for name, values in {"gamma": ["scale", 2.0], "C": [0.1, 1.0], "budget": [8, 64]}.items()
    }
    search = GridSearchCV(pipe, grid | {"kernelclassifier__lam": [0.0, 1e-3]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    assert f1_score(y, cross_val_predict(clone(search.best_estimator_), X, y, cv=3)) > 0.9


def test_frames_have_names():
    X, y = stream_of_classes()
    pandas, polars = pd.DataFrame(X, columns=["left", "right"]), pl.DataFrame(X, schema=["left", "right"])
    model = KernelClassifier(budget=24).fit(pandas, pd.Series(y))
    assert model.feature_names_in_.tolist() == ["left", "right"]
    assert same(model, KernelClassifier(budget=24).fit(polars, pl.Series(y.tolist())))
    assert np.array_equal(model.predict(polars), model.predict(pandas))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pandas.rename(columns={"left": "up"}))


def spectrum(X, Z):
    """How many pairs of letters two words have in common, normalised."""

    def counts(words):
        return np.array([[word.count(a + b) for a in "acgt" for b in "acgt"] for word in words], float)

    A, B = counts(X), counts(Z)
    return A @ B.T / np.maximum(np.linalg.norm(A, axis=1)[:, None] * np.linalg.norm(B, axis=1), 1e-12)


def test_words_through_a_kernel_of_ones_own():
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, 300)
    words = ["".join(rng.choice(list("acgt"), 20, p=[0.4, 0.1, 0.1, 0.4] if kind else [0.1, 0.4, 0.4, 0.1])) for kind in kinds]
    model = KernelClassifier(spectrum, budget=32).partial_fit(words[:200], kinds[:200])
    assert model.score(words[200:], kinds[200:]) > 0.95
    one = KernelClassifier(spectrum, budget=32)
    for word, kind in zip(words[:200], kinds[:200]):
        one.learn_one(word, int(kind))
    assert np.allclose(one.decision_function(words), model.decision_function(words))
    assert one.predict_one(words[250]) == model.predict(words[250:251])[0]
    assert np.array_equal(clone(model).fit(pd.Series(words[:200]), kinds[:200]).predict(words), model.predict(words))
    table = pd.DataFrame({"word": words, "times": np.arange(300)})
    mixed = KernelClassifier(lambda X, Z: spectrum([x[0] for x in X], [z[0] for z in Z]), budget=32).fit(table[:200], kinds[:200])
    assert np.array_equal(mixed.predict(table), model.predict(words))


def test_missing_values():
    X, y = stream_of_classes()
    holes = X.copy()
    holes[np.random.default_rng(5).uniform(size=X.shape) < 0.2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        KernelClassifier().fit(holes, y)
    whole = KernelClassifier(gamma=0.5, budget=32).fit(X, y)
    model = KernelClassifier(gamma=0.5, budget=32, missing="ignore").fit(X, y)
    assert np.allclose(model.decision_function(X), whole.decision_function(X)), "without holes nothing changes"
    model = KernelClassifier(budget=32, missing="ignore").fit(holes, y)
    assert model.score(X, y) > 0.75
    assert np.isfinite(model.decision_function(np.full((1, 2), np.nan))).all()
    model.learn_one([np.nan, 1.0], "a")
    assert model.predict_one([0.0, np.nan]) in ("a", "b", "c")


@pytest.mark.parametrize(
    "kernel", [onkel.RBF(0.7), onkel.Matern(0.7, 2.5), onkel.Laplacian(0.7), onkel.Polynomial(2), onkel.Linear()]
)
def test_missing_coordinates_are_left_out_and_the_rest_rescaled(kernel):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    holes = X.copy()
    holes[0, 1] = np.nan
    K = Observed(kernel)(with_mask(holes), with_mask(Z))
    assert np.allclose(K[1:], kernel(X, Z)[1:])
    both = [0, 2]
    rescale = 1.5 if isinstance(kernel, onkel.Laplacian) else np.sqrt(1.5)  # distances; both factors of a product
    assert np.allclose(K[0], kernel(rescale * X[:1, both], rescale * Z[:, both])[0])


def test_sparse_rows():
    from scipy.sparse import csr_array

    X, y = stream_of_classes()
    dense, sparse = KernelClassifier(budget=24).fit(X, y), KernelClassifier(budget=24)
    for start in range(0, len(X), 60):
        sparse.partial_fit(csr_array(X[start : start + 60]), y[start : start + 60])
    assert np.allclose(dense.decision_function(X), sparse.decision_function(csr_array(X)), atol=1e-8)


# --- safety -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [50, 200])
def test_an_error_changes_nothing(cut):
    X, y = stream_of_classes()
    model = KernelClassifier(budget=24).partial_fit(X[:cut], y[:cut])
    before = pickle.dumps(model)
    for x in ([0.0], [0.0, np.nan], [[0.0, 1.0]], ["a", "b"], np.zeros(3), np.full(2, np.inf)):
        with pytest.raises(ValueError):
            model.learn_one(x, "b")
    for x, label in ((X[0] * np.nan, "b"), (X[0] * np.nan, "unheard of")):
        with pytest.raises((ValueError, FloatingPointError), match="NaN or infinity"):
            model.learn_one(x, label)
    with pytest.raises(ValueError):
        model.partial_fit([[np.nan, 0.0]], ["b"])
    with pytest.raises(ValueError, match="NaN or infinity"):
        model.predict_one(X[0] * np.nan)
    with pytest.raises(ValueError):
        model.fit(X[:, :1], y[:-1])
    assert pickle.dumps(model) == before
    loud = KernelRegressor(step="explicit", eta=3.0, lam=0.0, budget=8).fit(X[:10], X[:10, 0])
    before = pickle.dumps(loud)
    with pytest.raises(FloatingPointError, match="finite"):  # at one point over and over each step doubles the error
        loud.partial_fit(np.zeros((3000, 2)), np.ones(3000))
    assert pickle.dumps(loud) == before


def test_ctrl_c_leaves_the_last_whole_block(monkeypatch):
    X, y = stream_of_classes()
    monkeypatch.setattr(attempt, "BLOCK", 50)
    calls = []

    def kernel(A, B):
        calls.append(len(A))
        if sum(n > 1 for n in calls) > 7:
            raise KeyboardInterrupt
        return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2))

    model = KernelClassifier(kernel, budget=24)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.state_.t in range(50, 300, 50)
    calls.clear()
    again = KernelClassifier(kernel, budget=24).fit(X[: model.state_.t], y[: model.state_.t])
    assert same(model, again)
    assert model.predict(X[:10]).shape == (10,)


def test_a_snapshot_stands_still_while_another_thread_learns():
    X, y = make_moons(3000, noise=0.2, random_state=2)
    model = KernelClassifier(budget=64).partial_fit(X[:200], y[:200])
    frozen = model.snapshot()
    before, wrong = frozen.decision_function(X[:50]), []

    def watch():
        for _ in range(50):
            wrong.append(not np.array_equal(frozen.decision_function(X[:50]), before))

    thread = threading.Thread(target=watch)
    thread.start()
    for start in range(200, 3000, 50):
        model.partial_fit(X[start : start + 50], y[start : start + 50])
    for x, label in zip(X[:500], y[:500].tolist()):
        model.learn_one(x, label)
    thread.join()
    assert not any(wrong)
    assert not np.array_equal(model.decision_function(X[:50]), before)
    frozen.partial_fit(X, y)  # a copy may go its own way


@pytest.mark.parametrize("at", [30, 200])
def test_copies_go_on_alike(at, tmp_path):
    X, y = stream_of_classes()
    model = KernelClassifier(budget=24).partial_fit(X[:at], y[:at])
    model.learn_one(X[at], y[at])
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    onkel.save(model, tmp_path / "model.onkel")
    twins = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model), joblib.load(file), onkel.load(tmp_path / "model.onkel")]
    model.partial_fit(X[at:], y[at:])
    for twin in twins:
        twin.partial_fit(X[at:], y[at:])
        assert same(twin, model)
        assert np.array_equal(twin.predict_proba(X), model.predict_proba(X))


def test_files_of_every_kind_of_input(tmp_path):
    """Sparse rows and holes while gamma is open, words, and the other two estimators."""
    from scipy.sparse import csr_matrix

    X, y = stream_of_classes()
    holes = np.where(np.random.default_rng(5).uniform(size=X.shape) < 0.2, np.nan, X)
    words = np.random.default_rng(6).choice(["acgt", "ttga", "gggc", "caca"], 60).tolist()
    cases = (
        (KernelClassifier(budget=24), csr_matrix(X), y),
        (KernelClassifier(budget=24, missing="ignore"), holes, y),
        (KernelClassifier(spectrum, budget=24), words, y[:60]),
        (KernelRegressor(budget=24), X, X[:, 0]),
        (NoveltyDetector(budget=24), X, None),
    )
    for model, rows, target in cases:
        model.partial_fit(rows[:50], None if target is None else target[:50])
        onkel.save(model, tmp_path / "model.onkel")
        twin = onkel.load(tmp_path / "model.onkel", kernels={"spectrum": spectrum})
        for one in (model, twin):
            one.partial_fit(rows[50:], None if target is None else target[50:])
        assert np.array_equal(model._score(rows), twin._score(rows))
        assert np.array_equal(model.model_.cells, twin.model_.cells)


@pytest.mark.parametrize("step", [{"step": "adaptive"}, {"drop": "project"}, {"drop": "oldest"}], ids=str)
def test_keeping_the_newest_points(step):
    X, y = stream_of_classes()
    model = KernelClassifier(gamma=0.5, budget=24, **step).fit(X, y)
    learner, state = model.learner_, model.state_
    kept = keep_newest(state, learner, 10)
    assert np.array_equal(kept.coef, state.coef[-10:])
    assert np.array_equal(kept.points, state.points[-10:])
    if kept.base > kept.m:
        K = learner.kernel(kept.points)
        assert kept.num[layout.N2] == pytest.approx(np.trace(kept.coef.T @ K @ kept.coef))
        assert kept.num[layout.PI] == pytest.approx(np.trace(kept.coef.T @ K @ kept.trace_coef))
    after, _ = learner.learn(kept, X, model.model_.codes(onkel.estimators.examples.Encoded.of(y)))
    assert after.size == 24
    assert np.isfinite(after.coef).all()


@pytest.mark.parametrize("y", [float("nan"), np.float32("nan"), float("inf"), 2.5, [1], np.array([1, 2]), pd.NA, pd.NaT])
def test_learn_one_refuses_what_cannot_be_a_class(y):
    model = onkel.KernelClassifier(budget=20).partial_fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    with pytest.raises(ValueError, match="y is"):
        model.learn_one(np.zeros(2), y)
    assert list(model.classes_) == [0, 1]
    assert model.state_.t == 2


@pytest.mark.parametrize("x", [np.array([1 + 9j, 0.0]), np.array([1, 2], "M8[s]"), np.array([1, 2], "m8[s]")])
def test_learn_one_refuses_what_is_no_real_number(x):
    model = onkel.KernelClassifier(budget=20).partial_fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    with pytest.raises(ValueError, match="real numbers"):
        model.learn_one(x, 1)
    with pytest.raises(ValueError, match="real numbers"):
        model.predict_one(x)
