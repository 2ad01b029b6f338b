"""AutoRegressor, AutoDetector and Scaler: scikit-learn's checks, one model however the stream is cut, causality, bytes, files."""

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from onkel import AutoDetector, AutoRegressor, Scaler, persist

ORDER = "an online learner depends on the order of the rows, which this check shuffles"


NAMED = "this check asks anything called Scaler for a parameter with_mean"


def expected(estimator):
    if isinstance(estimator, Scaler):
        return {"check_estimator_sparse_array": NAMED, "check_estimator_sparse_matrix": NAMED}
    return {"check_sample_weight_equivalence_on_dense_data": ORDER}


@parametrize_with_checks(
    [AutoRegressor(), AutoDetector(), Scaler()],
    expected_failed_checks=expected,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def waves(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 3)) * [1.0, 1e5, 1e-4]
    return X, 100 + 10 * np.sin(X[:, 0]) + rng.normal(size=n)


@pytest.mark.parametrize("options", [{}, {"members": "small", "past": False}], ids=str)
def test_the_cut_does_not_matter_for_numbers(options):
    X, y = waves()
    whole, parts, single = (AutoRegressor(**options) for _ in range(3))
    whole.partial_fit(X, y)
    for i in range(0, len(y), 7):
        parts.partial_fit(X[i : i + 7], y[i : i + 7])
    for x, target in zip(X, y.tolist()):
        single.learn_one(x, target)
    again = persist.loads(persist.dumps(parts))
    for other in (parts, single, again):
        assert np.array_equal(other.predict_interval(X), whole.predict_interval(X))
        assert other.nbytes == whole.nbytes <= 100_000
    for other in (whole, again):
        other.partial_fit(X[:50], y[:50])
    assert np.array_equal(again.predict(X), whole.predict(X))


def test_later_rows_change_no_earlier_number():
    X, y = waves()
    other, targets = X.copy(), y.copy()
    other[200:] *= -3.0
    targets[200:] += 1e6
    first, second = AutoRegressor().learn_predict(X, y), AutoRegressor().learn_predict(other, targets)
    assert np.array_equal(first[:200], second[:200])
    assert not np.array_equal(first[200:], second[200:])


def test_numbers_are_learned_and_intervals_hold():
    X, y = waves(1500)
    model = AutoRegressor(coverage=0.8).partial_fit(X[:1000], y[:1000])
    low, high = model.predict_interval(X[1000:]).T
    assert np.abs(model.predict(X[1000:]) - y[1000:]).mean() < 1.5
    assert 0.65 < ((low <= y[1000:]) & (y[1000:] <= high)).mean() < 0.95
    assert model.errors_["all together"][-1] < model.errors_["no change"][-1]


def test_numbers_from_frames_whose_columns_appear():
    X, y = waves()
    frame = pd.DataFrame({"a": X[:, 0], "word": np.where(X[:, 1] > 0, "up", "down")})
    model = AutoRegressor().partial_fit(frame, y)
    model.partial_fit(frame.assign(fresh=X[:, 2], text="x"), y)
    assert np.isfinite(model.predict(frame.drop(columns="a"))).all()
    assert model.nbytes <= 100_000


@pytest.mark.parametrize("target", [["a"] * 300, [np.inf] * 300, np.zeros((300, 2))], ids=["text", "infinity", "two"])
def test_a_target_that_is_no_number_changes_nothing(target):
    X, y = waves()
    model = AutoRegressor().partial_fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError):
        model.partial_fit(X, target)
    assert np.array_equal(model.predict(X), before)


def test_the_cut_does_not_matter_for_novelty():
    X, _ = waves()
    whole, single = AutoDetector().partial_fit(X), AutoDetector()
    for x in X:
        single.learn_one(x)
    again = persist.loads(persist.dumps(single))
    for other in (single, again):
        other.partial_fit(X[:20])
    whole.partial_fit(X[:20])
    assert np.array_equal(single.score_samples(X), whole.score_samples(X))
    assert np.array_equal(again.score_samples(X), whole.score_samples(X))
    assert whole.nbytes <= 100_000


def test_strangers_stand_out_and_alerts_are_as_many_as_asked():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4)) * [1.0, 1e6, 1e-3, 1.0]
    model = AutoDetector(nu=0.1)
    scores = model.learn_score(X)
    assert 0.05 < (model.predict(rng.normal(size=(2000, 4)) * [1.0, 1e6, 1e-3, 1.0]) < 0).mean() < 0.2
    assert model.score_one(np.array([8.0, 0.0, 0.0, 0.0])) < scores[100:].min()
    assert model.predict_one(np.array([8.0, 0.0, 0.0, 0.0])) == -1
    other = X.copy()
    other[2000:] = 0.0
    assert np.array_equal(AutoDetector(nu=0.1).learn_score(other)[:2000], scores[:2000])


def test_the_scaler_is_the_standard_one_where_tails_are_light():
    X, _ = waves()
    parts = Scaler().partial_fit(X[:100]).partial_fit(X[100:])
    assert np.allclose(parts.transform(X), StandardScaler().fit_transform(X), atol=1e-9)
    X[3] = np.nan
    scaled = Scaler().fit(X).transform(X)
    assert (scaled[3] == 0).all()
    again = persist.loads(persist.dumps(Scaler().fit(X)))
    assert np.array_equal(again.transform(X), scaled)


def test_the_scaler_keeps_ones_and_bends_heavy_tails():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 500), rng.standard_t(1.2, 500), rng.normal(size=500)]).astype(float)
    Z = Scaler().fit_transform(X)
    assert np.array_equal(Z[:, 0], X[:, 0])
    assert np.abs(Z[:, 1]).max() < np.abs(StandardScaler().fit_transform(X)[:, 1]).max()


def test_river_twins():
    from river import checks

    import onkel.river

    checks.check_estimator(onkel.river.AutoRegressor())
    model = onkel.river.AutoDetector()
    assert model.score_one({"a": 1.0}) == 0.0
    for i in range(200):
        model.learn_one({"a": float(i % 7), "b": "text"})
    assert model.score_one({"a": 90.0, "b": "other"}) > 0.5 > model.score_one({"a": 3.0, "b": "text"})


def test_the_best_member_is_an_ordinary_learner():
    from onkel import AutoClassifier

    X, y = waves()
    model = AutoRegressor(past=False).partial_fit(X, y)
    name, learner, state, view = model.best()
    assert name in model.weights_
    said = learner.score(state, view(X))
    assert np.abs(said - y).mean() < np.abs(y.mean() - y).mean()
    classes = AutoClassifier().partial_fit(X, np.digitize(X[:, 0], [-1, 1]))
    name, learner, state, view = classes.best()
    names = np.array(list(classes._names))
    assert (names[learner.score(state, view(X)).argmax(axis=1)] == np.digitize(X[:, 0], [-1, 1])).mean() > 0.9
    two = AutoClassifier(members="small").partial_fit(X, X[:, 0] > 0)
    name, learner, state, view = two.best()
    second = list(two._names)[1]
    assert ((learner.score(state, view(X)) > 0) == ((X[:, 0] > 0) == second)).mean() > 0.9
