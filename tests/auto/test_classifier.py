"""AutoClassifier: scikit-learn's checks, one model however the stream is cut, causality, bytes, files, classes that come late."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import onkel
from onkel import AutoClassifier, persist

ORDER = "an online learner depends on the order of the rows, which this check shuffles"
NAMES = "columns are found by name and may come and go: that is the promise, where this check wants an error"


class Validating(AutoClassifier):
    """Without the tag that lets scikit-learn leave checks out."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.no_validation = False
        return tags


def expected(estimator):
    return {
        "check_sample_weight_equivalence_on_dense_data": ORDER,
        "check_dataframe_column_names_consistency": NAMES,
    }


@parametrize_with_checks([AutoClassifier(), Validating(members="small")], expected_failed_checks=expected)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def blobs(n=400, seed=0, d=3):
    """Three classes; "b" first comes at row 40, "a" at row 200."""
    rng = np.random.default_rng(seed)
    code = np.where(np.arange(n) < 40, 0, np.where(np.arange(n) < 200, rng.integers(0, 2, n), rng.integers(0, 3, n)))
    X = rng.normal(size=(n, d)) * [1.0, 1e4, 1e-3][:d]
    X[:, 0] += 2 * code
    return X, np.array(["c", "b", "a"])[code]


def same(one, other, X):
    return np.array_equal(one.predict_proba(X), other.predict_proba(X)) and one.nbytes == other.nbytes


@pytest.mark.parametrize("cut", [1, 7, 150])
@pytest.mark.parametrize("options", [{}, {"members": "small", "past": False}], ids=str)
def test_the_cut_does_not_matter_though_classes_turn_up(cut, options):
    X, y = blobs()
    whole, parts = AutoClassifier(**options).partial_fit(X, y), AutoClassifier(**options)
    for i in range(0, len(y), cut):
        parts.partial_fit(X[i : i + cut], y[i : i + cut])
    single = AutoClassifier(**options)
    for x, label in zip(X, y.tolist()):
        single.learn_one(x, label)
    assert same(whole, parts, X)
    assert same(whole, single, X)


def test_later_rows_change_no_earlier_prediction():
    X, y = blobs(300)
    other, labels = X.copy(), y.copy()
    other[200:] *= -3.0
    labels[200:] = labels[200:][::-1]
    first, second = AutoClassifier().learn_predict(X, y), AutoClassifier().learn_predict(other, labels)
    assert (first[:200] == second[:200]).all()
    assert (first[200:] != second[200:]).any()


def test_what_is_said_before_learning_is_what_predict_says():
    X, y = blobs(120)
    model, said = AutoClassifier(), []
    for x, label in zip(X, y.tolist()):
        said.append(model.predict_one(x) if model._engine else None)
        model.learn_one(x, label)
    assert said == AutoClassifier().learn_predict(X, y).tolist()


@pytest.mark.parametrize("classes", [2, 7])
@pytest.mark.parametrize("d", [1, 3, 40, 300])
@pytest.mark.parametrize("budget", ["20kB", "100kB", 400_000])
def test_the_budget_counts_everything_and_holds(budget, d, classes):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(150, d)), rng.integers(0, classes, 150)
    model = AutoClassifier(budget=budget)
    most = {"20kB": 20_000, "100kB": 100_000}.get(budget, budget)
    if (d, most) == (300, 20_000):
        with pytest.raises(ValueError, match="at least"):
            model.partial_fit(X, y)
        return
    for i in range(0, 150, 50):
        model.partial_fit(X[i : i + 50], y[i : i + 50])
        assert model.nbytes <= most
    assert len(pickle.dumps(model)) < most + 20_000
    assert len(persist.dumps(model)) < most + 40_000


def test_saved_loaded_continued_is_the_same_to_the_bit(tmp_path):
    X, y = blobs()
    model = AutoClassifier().partial_fit(X[:250], y[:250])
    onkel.save(model, tmp_path / "model.onkel")
    again = onkel.load(tmp_path / "model.onkel")
    twins = [model, again, pickle.loads(pickle.dumps(model)), copy.deepcopy(model), model.snapshot()]
    for twin in twins:
        twin.partial_fit(X[250:], y[250:])
    assert all(same(model, twin, X) for twin in twins)
    assert again.summary() == model.summary()


def test_a_snapshot_stays():
    X, y = blobs()
    model = AutoClassifier().partial_fit(X[:250], y[:250])
    kept = model.snapshot()
    before = kept.predict_proba(X)
    model.partial_fit(X[250:], y[250:])
    model.learn_one(X[0], "d")
    assert np.array_equal(kept.predict_proba(X), before)


def test_scale_and_announced_classes_do_not_matter():
    X, y = blobs()
    one = AutoClassifier().partial_fit(X, y)
    announced = AutoClassifier().partial_fit(X[:10], y[:10], classes=["a", "b", "c", "never"]).partial_fit(X[10:], y[10:])
    assert list(announced.classes_) == ["a", "b", "c", "never"]
    assert np.array_equal(announced.predict_proba(X)[:, :3], one.predict_proba(X))
    assert (AutoClassifier().learn_predict(X * 2.0**20, y) == AutoClassifier().learn_predict(X, y)).mean() > 0.98


def test_weight_zero_is_absence():
    X, y = blobs()
    there = np.arange(len(y)) % 3 > 0
    assert same(AutoClassifier().fit(X, y, sample_weight=there.astype(float)), AutoClassifier().fit(X[there], y[there]), X)


def mixed(n=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "number": rng.normal(size=n),
        "text": rng.choice(list("uvwxyz"), n),
        "flag": rng.random(n) > 0.5,
        "when": pd.date_range("2020-01-01", periods=n, freq="7h"),
        "kind": pd.Categorical(rng.choice(["left", "right"], n)),
    })  # fmt: skip
    y = np.where(frame.text.isin(["u", "v"]) ^ frame.flag, "yes", "no")
    frame.loc[5:9, "number"] = np.nan
    frame.loc[50, "text"] = None
    frame["nothing"] = None
    frame["constant"] = 3
    return frame, y


def test_frames_are_taken_as_they_are():
    import polars as pl

    frame, y = mixed()
    model = AutoClassifier().partial_fit(frame[:200], y[:200])
    assert model.score(frame[200:], y[200:]) > 0.9
    other, single = AutoClassifier(), AutoClassifier()
    for i in range(0, 200, 33):
        other.partial_fit(pl.from_pandas(frame[i : min(i + 33, 200)]), y[i : min(i + 33, 200)])
    for i in range(200):
        single.learn_one(frame.iloc[i].to_dict(), y[i])
    assert same(model, other, frame)
    assert same(model, single, frame)
    assert np.array_equal(model.predict(frame[frame.columns[::-1]]), model.predict(frame))
    assert set(model.predict(frame.drop(columns=["text", "number"]))) <= {"yes", "no"}
    model.partial_fit(frame.assign(fresh=1.0), y)
    assert "fresh" in model.columns_
    assert model.predict_one({"text": "u", "unheard of": object}) in ("yes", "no")
    again = persist.loads(persist.dumps(model))
    assert same(model, again, frame)


def test_many_categories_share_columns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"word": [f"word{i}" for i in rng.integers(0, 100_000, 2000)]})
    model = AutoClassifier().partial_fit(frame, rng.integers(0, 2, 2000))
    assert len(model.columns_) <= 32 + 16
    assert model.nbytes <= 100_000


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda X, y: AutoClassifier(budget="10 potatoes").fit(X, y), "100kB"),
        (lambda X, y: AutoClassifier(budget=-3).fit(X, y), "100kB"),
        (lambda X, y: AutoClassifier(budget="1kB").fit(X, y), "at least"),
        (lambda X, y: AutoClassifier(members="tiny").fit(X, y), "small"),
        (lambda X, y: AutoClassifier().fit(pd.DataFrame(index=range(400)), y), "no usable column"),
        (lambda X, y: AutoClassifier().fit(pd.DataFrame({"a": [object()] * 400}), y), "column 'a'"),
        (lambda X, y: AutoClassifier().fit(pd.DataFrame({"a": [np.inf] * 400}), y), "column 'a'"),
        (lambda X, y: AutoClassifier().fit(X, X[:, 0]), "continuous"),
        (lambda X, y: AutoClassifier().fit({"a": 1.0}, y), "one dictionary"),
    ],
)
def test_errors_say_what_to_do(build, words):
    X, y = blobs()
    with pytest.raises(ValueError, match=words):
        build(X, y)


def test_an_error_changes_nothing():
    X, y = blobs()
    model = AutoClassifier(budget="12kB").partial_fit(X, y)
    before, size = model.predict_proba(X), model.nbytes
    for wrong in (
        lambda: model.partial_fit(X, np.arange(400) // 2),
        lambda: model.partial_fit(X[:, :2], y),
        lambda: model.learn_one("x", 1),
    ):
        with pytest.raises(ValueError):
            wrong()
    assert np.array_equal(model.predict_proba(X), before)
    assert model.nbytes == size


def test_rows_without_anything():
    X, y = blobs(60)
    X[0] = np.nan
    X[:, 1] = np.nan
    X[:, 2] = 7.0
    assert np.isfinite(AutoClassifier().partial_fit(X, y).predict_proba(X)).all()
    assert AutoClassifier().fit(X, ["only"] * 60).predict(X[:2]).tolist() == ["only", "only"]


def test_what_it_found_is_visible():
    X, y = blobs()
    model = AutoClassifier().partial_fit(X, y)
    weights, errors = model.weights_, model.errors_
    assert len(weights["row"]) == len(errors["row"]) > 3
    assert model.widths_.argmax() == 0
    assert abs(model.widths_.mean() - 1) < 1e-9
    said = AutoClassifier().learn_predict(X, y)
    assert errors["all together"][-1] == pytest.approx((said != y).mean())
    assert errors["no change"][-1] == pytest.approx(1 - (y[1:] == y[:-1]).sum() / len(y))
    assert "most believed" in model.summary()


def test_river_twin():
    from river import checks

    import onkel.river

    checks.check_estimator(onkel.river.AutoClassifier())
    frame, y = mixed(100)
    model, other = onkel.river.AutoClassifier(), AutoClassifier()
    assert model.predict_one({"a": 1}) is None
    for i in range(100):
        model.learn_one(frame.iloc[i].to_dict(), y[i])
    other.partial_fit(frame, y)
    assert model.predict_many(frame).tolist() == other.predict(frame).tolist()
    again = persist.loads(persist.dumps(model))
    assert again.predict_proba_one(frame.iloc[3].to_dict()) == model.predict_proba_one(frame.iloc[3].to_dict())
