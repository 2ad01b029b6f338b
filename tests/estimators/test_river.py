"""The River door: River's own checks, the same model as scikit-learn's door, features that come and go."""

import itertools
import math
import pickle
import random

import numpy as np
import pandas as pd
import polars as pl
import pytest
from river import anomaly, checks, compose, datasets, evaluate, metrics, preprocessing

import onkel
import onkel.river as door


class Credit:
    """Stands in for River's credit-card stream, which has to be downloaded: 30 features, a few anomalies among them."""

    def take(self, n):
        chance = random.Random(1)
        for i in range(n):
            odd = i % 40 == 39
            yield {f"V{j}": chance.gauss(4.0 if odd else 0.0, 1.0) for j in range(30)}, odd


@pytest.fixture
def offline(monkeypatch):
    monkeypatch.setattr(datasets, "CreditCard", Credit)


@pytest.mark.parametrize(
    "model", [door.KernelClassifier(budget=64), door.KernelRegressor(budget=64), door.NoveltyDetector(budget=64)]
)
def test_river_checks(model, offline):
    assert not model._unit_test_skips()
    checks.check_estimator(model)


def phishing(n):
    return list(itertools.islice(datasets.Phishing(), n))


def test_learn_one_equals_the_block():
    rows = phishing(400)
    X, y = pd.DataFrame([x for x, _ in rows]), [label for _, label in rows]
    one = door.KernelClassifier(budget=32)
    for x, label in rows:
        one.learn_one(x, label)
    many, block = door.KernelClassifier(budget=32), onkel.KernelClassifier(budget=32).partial_fit(X.to_numpy(float), y)
    many.learn_many(X, pd.Series(y))
    frame = door.KernelClassifier(budget=32)
    frame.learn_many(pl.DataFrame(X), pl.Series(y))
    expected = block.predict_proba(X.to_numpy(float))
    for model in (one, many, frame):
        assert np.array_equal(model._made.state_.coef, block.state_.coef)
        assert np.array_equal([list(model.predict_proba_one(x).values()) for x, _ in rows[:20]], expected[:20])


def test_pipelines_and_progressive_validation():
    model = preprocessing.StandardScaler() | door.KernelClassifier(budget=64)
    assert evaluate.progressive_val_score(datasets.Phishing(), model, metrics.ROCAUC()).get() > 0.93
    model = compose.Select("empty_server_form_handler", "popup_window") | door.KernelClassifier(budget=64)
    assert evaluate.progressive_val_score(datasets.Phishing().take(500), model, metrics.Accuracy()).get() > 0.7
    model = preprocessing.StandardScaler() | door.KernelRegressor(budget=64)
    mean = evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE()).get()
    assert mean < 1.0, mean


def test_anomalies_have_high_scores():
    model = anomaly.QuantileFilter(door.NoveltyDetector(budget=64), q=0.95)
    auc = metrics.ROCAUC()
    for x, odd in Credit().take(1500):
        auc.update(odd, model.score_one(x))
        model.learn_one(x)
    assert auc.get() > 0.95


def test_a_new_feature_leaves_the_model_as_it_was():
    """Stored points have 0 in the new column, so scores of old examples do not move; the column counts from then on."""
    model, chance = door.KernelRegressor(budget=32, gamma=0.5), random.Random(0)
    for _ in range(200):
        x = {"a": chance.uniform(-1, 1)}
        model.learn_one(x, x["a"])
    before = model.predict_one({"a": 0.3})
    model._row({"a": 0.3, "b": 2.0}, learning=True)
    assert model.predict_one({"a": 0.3}) == model.predict_one({"a": 0.3, "b": 0.0}) == before
    for _ in range(300):
        x = {"b": chance.uniform(-1, 1), "a": chance.uniform(-1, 1)}
        model.learn_one(x, 3 * x["b"])
    assert abs(model.predict_one({"a": 0.0, "b": 0.5}) - 1.5) < 0.3
    assert model.predict_one({"b": 0.5}) == model.predict_one({"a": 0.0, "b": 0.5})


@pytest.mark.parametrize("missing", ["error", "ignore"])
def test_features_while_gamma_is_open(missing):
    """The first hundred examples come with growing and shrinking sets of features."""
    chance = random.Random(2)
    model = door.KernelClassifier(budget=16, missing=missing)
    for i in range(150):
        x = {name: chance.gauss(0, 1) for name in "abcd"[: 1 + i % 4]}
        model.predict_one(x)
        model.learn_one(x, x["a"] > 0)
    right = sum(model.predict_one({"a": v}) == (v > 0) for v in (-2.0, -1.0, 1.0, 2.0))
    assert right == 4


def test_bad_features_have_names():
    model = door.KernelRegressor()
    with pytest.raises(ValueError, match="'colour' is 'red'"):
        model.learn_one({"colour": "red", "size": 1.0}, 1.0)
    with pytest.raises(ValueError, match="'size' is nan"):
        model.learn_one({"size": math.nan, "colour": 1.0}, 1.0)
    assert model.predict_one({"size": 1.0}) == 0.0


@pytest.mark.parametrize("at", [60, 150])
def test_copies_go_on_alike(at, tmp_path):
    """Pickled or saved before gamma is settled and after."""
    rows = phishing(300)
    model = door.KernelClassifier(budget=32)
    for x, label in rows[:at]:
        model.learn_one(x, label)
    onkel.save(model, tmp_path / "model.onkel")
    twins = [pickle.loads(pickle.dumps(model)), onkel.load(tmp_path / "model.onkel")]
    for x, label in rows[at:]:
        for twin in (model, *twins):
            twin.learn_one(x, label)
    for twin in twins:
        assert all(model.predict_proba_one(x) == twin.predict_proba_one(x) for x, _ in rows[:50])
