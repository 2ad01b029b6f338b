"""Explanations: the terms add up to the score for every kind of learner and of points, and say where they come from."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import onkel
from onkel.reasons.explain import explain

RNG = np.random.default_rng(3)
X = RNG.normal(size=(120, 4))
SIGNS = np.sign(X[:, 0] * X[:, 1])
CODES = (X[:, 1] > 0).astype(int) + (X[:, 2] > 0)
TREE = onkel.Labels.tree([-1, 0, 0, 1, 1])
RBF = onkel.RBF(1.0)

LEARNERS = {
    "silk": (onkel.silk(RBF, onkel.Hinge(), budget=20), SIGNS),
    "merge": (onkel.silk(RBF, onkel.Hinge(), budget=20, drop="merge"), SIGNS),
    "offset": (onkel.norma(RBF + onkel.Linear(), onkel.Hinge(), nu=0.2, offset=True, budget=30), SIGNS),
    "window": (onkel.norma(onkel.Laplacian(2.0), onkel.Logistic(), window=25), SIGNS),
    "square": (onkel.ilk(onkel.Polynomial(2, 0.2, 1.0), onkel.Square(), eta=0.1), X[:, 0] ** 2),
    "novelty": (onkel.norma(RBF, onkel.Novelty(), budget=30), None),
    "labels": (onkel.silk(RBF, onkel.Structured(onkel.Labels.flat(3)), budget=25), CODES),
    "tree": (onkel.silk(RBF, onkel.Structured(TREE), budget=25), CODES),
    "softmax, adaptive": (onkel.svmd(RBF, onkel.Softmax(onkel.Labels.flat(3)), budget=25), CODES),
    "matern": (onkel.silk(onkel.Matern(1.0), onkel.Hinge(), budget=20), SIGNS),
    "own": (onkel.ilk(lambda A, B: np.asarray(A) @ np.asarray(B).T + 1.0, onkel.Square(), eta=0.1), X[:, 0]),
    "large": (onkel.ilk(RBF, onkel.Logistic()), SIGNS),
}


def taught(name, X=X):
    learner, y = LEARNERS[name]
    return learner, learner.learn(learner.init(), X, y)[0]


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("kind", ["double", "single", "sparse", "wide"])
def test_terms_add_up(name, kind):
    if kind == "sparse" and name == "own":
        pytest.skip("its kernel is for arrays")
    rows = {"double": X, "single": X.astype(np.float32), "sparse": csr_matrix(X), "wide": np.hstack([X, np.zeros((120, 9000))])}[
        kind
    ]
    learner, state = taught(name, rows)
    tolerance = 1e-4 if kind == "single" else 1e-8
    split = name not in ("matern", "own")
    for i in (0, 77):
        x = rows[i]
        score = learner.score(state, rows[[i]])[0]
        for label in [None] if learner.outputs == 1 else [None, 0, 1, 2]:
            why = explain(learner, state, x, label=label)
            expected = score if learner.outputs == 1 else score[np.argmax(score) if label is None else label]
            assert why.terms.sum() + why.offset == pytest.approx(expected, abs=tolerance)
            assert why.score == pytest.approx(expected, abs=tolerance)
            assert len(why.terms) == len(why.born) == state.size
            if split and kind != "wide":
                assert why.base + why.shapley.sum() == pytest.approx(expected, abs=tolerance)
            elif not split:
                with pytest.raises(TypeError, match="does not split"):
                    why.shapley  # noqa: B018
            assert len(why.text()) > 20


def test_says_which_example_and_which_label():
    learner, state = taught("silk")
    why = explain(learner, state, X[7])
    np.testing.assert_array_equal(X[why.born - 1], why.points)
    assert why.labels == [f"{y:+.0f}" for y in SIGNS[why.born - 1]]
    best = why.top(1).speaks_for[0]
    assert best.term == why.terms.max()
    np.testing.assert_array_equal(X[best.example - 1], best.point)
    learner, state = taught("labels")
    why = explain(learner, state, X[7])
    assert why.labels == [f"class {z}" for z in CODES[why.born - 1]]


def test_top_takes_each_side_in_order_and_nothing_twice():
    learner, state = taught("silk")
    why = explain(learner, state, X[5])
    up, down = why.top(1000)
    assert len(up) + len(down) == (why.terms != 0).sum()
    assert [r.term for r in up] == sorted((r.term for r in up), reverse=True)
    assert [r.term for r in down] == sorted(r.term for r in down)
    assert min(r.term for r in up) > 0 > max(r.term for r in down)


def test_an_explanation_stays_when_the_state_goes_on():
    model = onkel.KernelClassifier(budget=20, gamma=0.5).partial_fit(X, CODES)
    why = model.explain(X[0])
    points, shapley = explain(model.learner_, model.state_, X[0]).points.copy(), None
    for x, y in zip(X, CODES[::-1]):
        model.learn_one(x, y)
    np.testing.assert_array_equal(why.points, points)
    shapley = why.shapley
    assert why.base + shapley.sum() == pytest.approx(why.score)


def test_backgrounds():
    learner, state = taught("silk")
    x = X[3]
    row = explain(learner, state, x, background=X[9])
    assert row.base == pytest.approx(learner.score(state, X[9:10])[0])
    stored = explain(learner, state, x, background="stored")
    assert stored.base == pytest.approx(learner.score(state, state.points).mean())
    same = explain(learner, state, x, background=x)
    assert not same.shapley.any()
    for wrong in (X[9, :2], np.full(4, np.nan)):
        with pytest.raises(ValueError, match="finite numbers, 4"):
            explain(learner, state, x, background=wrong)
    with pytest.raises(ValueError, match="or 'stored'"):
        explain(learner, state, x, background="mean")


def test_sampling_agrees_within_its_error():
    learner, state = taught("silk")
    why = explain(learner, state, X[3], background=X[9])
    values, errors = why.sampled(X[9], permutations=400)
    assert (np.abs(values - why.shapley) <= 4 * errors + 1e-12).all()
    assert values.sum() == pytest.approx(why.shapley.sum())
    learner, state = taught("matern")
    values, errors = explain(learner, state, X[3]).sampled(X[9])
    assert values.sum() == pytest.approx(learner.score(state, X[3:4])[0] - learner.score(state, X[9:10])[0])
    with pytest.raises(ValueError, match="one row of 4"):
        explain(learner, state, X[3]).sampled(X[9, :3])


def test_objects_are_explained_by_examples():
    words = ["kernel", "kennel", "colonel", "eternal", "maternal", "journal"]
    alike = onkel.silk(lambda A, B: np.array([[len(set(a) & set(b)) / len(set(a) | set(b)) for b in B] for a in A]), onkel.Hinge())
    state, _ = alike.learn(alike.init(), words, [1, 1, 1, -1, -1, -1])
    why = explain(alike, state, "kernels")
    assert why.terms.sum() == pytest.approx(alike.score(state, ["kernels"])[0])
    assert "'kernel'" in why.text(n=6)
    with pytest.raises(TypeError, match="objects and have no features"):
        why.shapley  # noqa: B018


def test_before_the_first_example():
    learner = onkel.silk(RBF, onkel.Hinge(), budget=5)
    why = explain(learner, learner.init(), X[0])
    assert (why.score, len(why), why.base) == (0.0, 0, 0.0)
    assert not why.shapley.any()
    assert "0 stored examples" in why.text()


@pytest.mark.parametrize(
    ("x", "says"), [(X[:2], "one example"), (X[0, :3], "3 features"), ([np.nan] * 4, "NaN"), (["a"] * 4, "numbers")]
)
def test_wrong_examples(x, says):
    learner, state = taught("silk")
    with pytest.raises(ValueError, match=says):
        explain(learner, state, x)


def test_wrong_labels():
    learner, state = taught("labels")
    for label in (3, -1, "0", True):
        with pytest.raises(ValueError, match=r"0 \.\. 2"):
            explain(learner, state, X[0], label=label)


def test_estimators():
    names = np.array(["no", "yes"])[(SIGNS > 0).astype(int)]
    two = onkel.KernelClassifier(budget=20, gamma=0.5).partial_fit(X, names)
    why = two.explain(X[0])
    assert why.score == pytest.approx(two.decision_function(X[:1])[0])
    assert two.explain(X[0], label="no").score == pytest.approx(-why.score)
    assert set(why.labels) == {"class no", "class yes"}
    assert "'yes' above 'no'" in why.text()
    three = onkel.KernelClassifier(budget=20, gamma=0.5).partial_fit(X, CODES)
    assert three.explain(X[0]).score == pytest.approx(three.decision_function(X[:1])[0].max())
    assert three.explain(X[0], label=2).score == pytest.approx(three.decision_function(X[:1])[0, 2])
    with pytest.raises(ValueError, match="seen so far"):
        three.explain(X[0], label=9)
    number = onkel.KernelRegressor(budget=20, gamma=0.5).partial_fit(X, X[:, 0])
    why = number.explain(X[0])
    assert why.terms.sum() + why.offset == pytest.approx(number.predict(X[:1])[0])
    assert why.offset != 0.0
    novel = onkel.NoveltyDetector(budget=20, gamma=0.5).partial_fit(X)
    assert "so x is novel" in novel.explain(X[0] + 50).text()
    assert "so x is familiar" in novel.explain(np.zeros(4)).text()
    with pytest.raises(ValueError, match="has no classes"):
        novel.explain(X[0], label=1)
    with pytest.raises(ValueError, match="missing"):
        onkel.KernelRegressor(missing="ignore").partial_fit(X, X[:, 0]).explain(X[0])
    with pytest.raises(AttributeError, match="not learned anything"):
        onkel.KernelRegressor().explain(X[0])


def test_importance():
    model = onkel.KernelRegressor(budget=40, gamma=0.5).partial_fit(X, np.sin(X[:, 2]))
    seen = onkel.importance(model, X[:30])
    every = np.array([np.abs(model.explain(x).shapley) for x in X[:60]])
    np.testing.assert_allclose(seen.values, every[:30].mean(axis=0))
    assert seen.top(1)[0][0] == "x[2]"
    seen.add(X[30:60])
    np.testing.assert_allclose(seen.values, every.mean(axis=0))
    assert seen.n == 60
    recent = onkel.importance(model, X[:60], memory=10)
    weights = 0.9 ** np.arange(60)[::-1]
    np.testing.assert_allclose(recent.values, weights @ every / weights.sum())
    learner, state = taught("silk")
    np.testing.assert_allclose(onkel.importance(learner, X[:5], state=state).values.shape, (4,))
    assert "Over 60 examples: x[2]" in str(seen)
    with pytest.raises(ValueError, match="memory"):
        onkel.importance(model, memory=0)
    with pytest.raises(TypeError, match="estimator that has learned"):
        onkel.importance(learner)


def test_figures():
    pytest.importorskip("matplotlib")
    learner, state = taught("silk")
    why = explain(learner, state, X[3])
    assert len(why.plot(3).axes) == 2
    assert len(why.plot(2, shape=(2, 2)).axes) == 6
    with pytest.raises(ValueError, match="4 pixels"):
        why.plot(shape=(3, 3))
    learner, state = taught("matern")
    assert len(explain(learner, state, X[3]).plot().axes) == 1
    model = onkel.KernelRegressor(budget=40, gamma=0.5).partial_fit(X, np.sin(X[:, 2]))
    assert len(onkel.importance(model, X[:3]).plot().axes) == 1
