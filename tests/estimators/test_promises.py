"""What the estimators promise of weights, missing values, targets of any size, sets and widths; each failed once."""

import numpy as np
import pytest
from river import drift
from scipy.sparse import csr_array, csr_matrix

import onkel
import onkel.river
from onkel import KernelClassifier, KernelRegressor, NoveltyDetector, persist
from onkel.estimators import calibration


def stream(n, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] * X[:, 1] > 0, "same", "other")


@pytest.mark.parametrize("known", [0, 50, 150])
def test_an_example_of_weight_zero_was_not_there(known):
    X, y = stream(160)
    model, twin = KernelClassifier(budget=24), KernelClassifier(budget=24)
    if known:
        model.partial_fit(X[:known], y[:known])
        twin.partial_fit(X[:known], y[:known])
    before = persist.dumps(model)
    model.partial_fit(X[:1], y[:1], sample_weight=[0.0])
    if known:
        assert persist.dumps(model) == before
        assert len(model.trace_.loss) == 0
    model.partial_fit(X[150:], y[150:], sample_weight=[0.0, 1.0] * 5)
    twin.partial_fit(X[151::2], y[151::2])
    assert np.array_equal(model.decision_function(X), twin.decision_function(X))


def test_classes_announced_with_an_example_of_weight_zero():
    X, y = stream(10)
    model = KernelClassifier().partial_fit(X[:1], y[:1], classes=["other", "same", "third"], sample_weight=[0.0])
    assert model.classes_.tolist() == ["other", "same", "third"]
    with pytest.raises(ValueError, match="weight"):
        KernelClassifier().fit(X, y, sample_weight=np.zeros(10))


@pytest.mark.parametrize("kind", [csr_matrix, csr_array])
def test_one_sparse_row(kind):
    X, y = stream(150, 5)
    S = kind(X)
    one, block = KernelClassifier(budget=24), KernelClassifier(budget=24).partial_fit(S, y)
    for i in range(150):
        one.learn_one(S[i : i + 1] if i % 2 else S[i], y[i])
    assert np.allclose(one.decision_function(S), block.decision_function(S), atol=1e-10)
    assert [one.predict_one(S[i]) for i in range(9)] == block.predict(S[:9]).tolist()
    dense = KernelClassifier(budget=24, gamma=0.5).partial_fit(X, y)
    with pytest.raises(ValueError, match="sparse"):
        dense.learn_one(S[0], "same")


def test_none_is_a_missing_value():
    X, y = stream(150)
    holes = X.copy()
    holes[::7, 1] = np.nan
    given = [[None if np.isnan(v) else v for v in row] for row in holes.tolist()]
    wanted = KernelClassifier(budget=24, missing="ignore").partial_fit(holes, y)
    block = KernelClassifier(budget=24, missing="ignore").partial_fit(np.array(given, object), y)
    one, river = KernelClassifier(budget=24, missing="ignore"), onkel.river.KernelClassifier(budget=24, missing="ignore")
    for row, label in zip(given, y):
        one.learn_one(row, label)
        river.learn_one({"a": row[0], "b": row[1]}, label)
    scores = wanted.decision_function(holes)
    for model in (block, one, river._made):
        assert np.allclose(model.decision_function(holes), scores, atol=1e-9)
    assert river.predict_one({"a": None, "b": 1.0}) in ("same", "other")
    with pytest.raises(ValueError, match="NaN"):
        KernelClassifier().learn_one([None, 1.0], "same")
    with pytest.raises(ValueError, match="'b' is None"):
        onkel.river.KernelRegressor().learn_one({"a": 1.0, "b": None}, 1.0)


@pytest.mark.parametrize("spread", [1e-3, 10.0, 1e5])
def test_adaptive_steps_do_not_care_how_large_targets_are(spread):
    X, _ = stream(900)
    y = np.sin(2 * X[:, 0]) + 0.1 * X[:, 1]
    small = KernelRegressor(step="adaptive", budget=64).fit(X[:700], y[:700])
    large = KernelRegressor(step="adaptive", budget=64).fit(X[:700], spread * y[:700])
    assert small.score(X[700:], y[700:]) > 0.8
    assert large.score(X[700:], spread * y[700:]) == pytest.approx(small.score(X[700:], y[700:]), abs=1e-6)
    assert large.predict_interval(X[:5]) == pytest.approx(spread * small.predict_interval(X[:5]), rel=1e-6)
    one = KernelRegressor(step="adaptive", budget=64)
    for x, target in zip(X[:700], spread * y[:700]):
        one.learn_one(x, target)
    assert np.array_equal(one.predict(X), large.predict(X))
    assert one.predict_one(X[0]) == large.predict(X[:1])[0]
    again = persist.loads(persist.dumps(large)).partial_fit(X[700:], spread * y[700:])
    assert np.array_equal(again.predict(X), large.partial_fit(X[700:], spread * y[700:]).predict(X))


def test_targets_that_grow_later_are_no_silent_end():
    X, _ = stream(900)
    y = np.sin(2 * X[:, 0])
    model = KernelRegressor(step="adaptive", offset=False, budget=64).fit(X[:400], y[:400])
    model.partial_fit(X[400:], 10.0 * y[400:])
    assert np.abs(model.predict(X)).max() < 100.0


def test_the_first_hundred_are_relearned_about_twice(monkeypatch):
    X, _ = stream(100)
    learned = []
    learn = onkel.estimators.model.advance

    def counted(learner, state, block, *rest):
        learned.append(len(block))
        return learn(learner, state, block, *rest)

    monkeypatch.setattr(onkel.estimators.model, "advance", counted)
    model = KernelRegressor(budget=24)
    for x in X:
        model.learn_one(x, float(x[0]))
        model.predict_one(x)
    assert sum(learned) < 350
    assert model.gamma_ == 1.0 / (2 * X.var())
    assert KernelRegressor(gamma=0.3).fit(X, X[:, 0]).gamma_ == 0.3


@pytest.mark.parametrize("cut", [1, 3, 30])
def test_the_model_is_one_at_any_time_of_the_first_hundred(cut):
    X, y = stream(75)
    model = KernelClassifier(budget=24)
    for start in range(0, 75, cut):
        model.partial_fit(X[start : start + cut], y[start : start + cut])
    assert np.array_equal(model.decision_function(X), KernelClassifier(budget=24).partial_fit(X, y).decision_function(X))


def test_mistakes_of_novelty_are_its_alerts():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 2))
    model, alerts = NoveltyDetector(budget=64, nu=0.05, gamma=0.5), []
    for x in X:
        alerts.append(model.model_ is not None and model.predict_one(x) < 0)
        model.learn_one(x)
    block = NoveltyDetector(budget=64, nu=0.05, gamma=0.5).partial_fit(X)
    assert np.array_equal(block.trace_.mistake, alerts)
    assert abs(block.trace_.mistake.mean() - 0.05) < 0.01


def test_a_detector_hears_alerts_and_speaks_soon():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(4000, 2)) + np.where(np.arange(4000) < 2000, 0.0, 4.0)[:, None]
    watch = drift.PageHinkley(mode="up", threshold=5.0)
    model = NoveltyDetector(budget=64, gamma=0.5, drift=watch).partial_fit(X)
    spoke = np.flatnonzero(model.trace_.drift)
    assert ((spoke >= 2000) & (spoke < 2020)).any()


class Two:
    """Speaks of every change: of a fall at 300, of a rise at 620."""

    def __init__(self):
        self.n, self.drift_detected = 0, False

    def update(self, value):
        self.n += 1
        self.drift_detected = self.n in (300, 620)


def test_only_rises_count():
    X, _ = stream(900)
    y = np.where(np.arange(900) < 600, X[:, 0], -3.0 * X[:, 0])
    model = KernelRegressor(budget=64, drift=Two(), on_drift="restart").partial_fit(X, y)
    assert np.flatnonzero(model.trace_.drift).tolist() == [619]


@pytest.mark.parametrize("make", [drift.ADWIN, drift.PageHinkley, drift.KSWIN, drift.binary.DDM], ids=lambda make: make.__name__)
def test_river_models_take_detectors(make):
    X, y = stream(300)
    for model, targets in (
        (onkel.river.KernelClassifier(budget=24, drift=make()), y.tolist()),
        (onkel.river.KernelRegressor(budget=24, drift=make()), X[:, 0].tolist()),
    ):
        for x, target in zip(X.tolist(), targets):
            model.learn_one(dict(enumerate(x)), target)
        assert model.clone().predict_one({0: 1.0, 1: 1.0}) in (None, 0.0)


# --- sets, and widths that follow x --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coverage", [0.7, 0.95])
def test_sets_hold_the_class_as_often_as_stated(coverage):
    """Each set is asked for before its example is learned; half way the classes change places."""
    X, y = stream(1600, seed=5)
    y[800:] = np.where(y[800:] == "same", "other", "same")
    model = KernelClassifier(budget=24, coverage=coverage).partial_fit(X[:2], y[:2], classes=["other", "same"])
    held = []
    for x, label in zip(X[2:], y[2:]):
        held.append(label in model.predict_set_one(x))
        model.learn_one(x, label)
    bound = (1.0 + 2.0 * calibration.PACE) / (calibration.PACE * len(held))
    assert abs(np.mean(held) - coverage) <= bound
    assert abs(np.mean(held) - coverage) < 0.04
    assert model.predict_set(X[:50]) == [model.predict_set_one(x) for x in X[:50]]
    block = KernelClassifier(budget=24, coverage=coverage).partial_fit(X, y, classes=["other", "same"])
    assert block.predict_set(X) == model.predict_set(X)


def test_sets_may_be_empty_and_full():
    model = KernelClassifier(coverage=0.8).partial_fit([[0.0], [4.0]], ["a", "b"])
    model.model_.cells[calibration.LEAST] = 0.0
    assert model.predict_set_one([0.0]) == {"a", "b"}
    model.model_.cells[calibration.LEAST] = 1.01
    assert model.predict_set([[0.0]]) == [set()]


def uneven(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    return X, np.sin(3 * X[:, 0]) + np.where(X[:, 0] > 0, 1.0, 0.1) * rng.normal(size=n)


def test_local_intervals_are_wide_where_the_noise_is():
    X, y = uneven(5000, 0)
    shares = {}
    for interval in ("even", "local"):
        model = KernelRegressor(budget=64, interval=interval)
        held = np.zeros(5000, bool)
        for start in range(0, 5000, 10):
            if start:
                low, high = model.predict_interval(X[start : start + 10]).T
                held[start : start + 10] = (low <= y[start : start + 10]) & (y[start : start + 10] <= high)
            model.partial_fit(X[start : start + 10], y[start : start + 10])
        late = np.arange(5000) >= 1000
        shares[interval] = [held[late & side].mean() for side in (X[:, 0] > 0, X[:, 0] <= 0)]
    assert min(shares["even"]) < 0.84
    assert max(shares["even"]) > 0.96
    assert max(abs(share - 0.9) for share in shares["local"]) < 0.04


def test_local_intervals_belong_to_the_stream_alone(tmp_path):
    X, y = uneven(300, 1)
    whole, one = KernelRegressor(budget=24, interval="local").partial_fit(X, y), KernelRegressor(budget=24, interval="local")
    for x, target in zip(X, y):
        one.learn_one(x, target)
    assert np.array_equal(one.predict_interval(X), whole.predict_interval(X))
    even = KernelRegressor(budget=24).partial_fit(X, y)
    assert np.array_equal(even.predict(X), whole.predict(X)), "what is predicted does not change"
    again = persist.loads(persist.dumps(whole))
    assert np.array_equal(again.partial_fit(X, y).predict_interval(X), whole.partial_fit(X, y).predict_interval(X))
    with pytest.raises(ValueError, match='"even" or "local"'):
        KernelRegressor(interval="wide").fit(X, y)
