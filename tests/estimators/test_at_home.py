"""What people who come from scikit-learn expect to find: types, attributes under the names of SVC and SVR, weights of classes."""

import ast
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, issparse
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC, SVR, OneClassSVM

import onkel
from onkel import KernelClassifier, KernelRegressor, NoveltyDetector, persist
from onkel import river as onkel_river
from onkel.core.points.missing import Observed, with_mask

PACKAGE = Path(onkel.__file__).parent


# --- types ------------------------------------------------------------------------------------------------------------------------


def test_type_checkers_read_the_names_that_are_there():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    found = {
        (item.module, name.name, name.asname) for block in blocks for item in block.body for name in item.names
    }
    assert found == {(f"onkel.{module}", name, name) for module, names in onkel._HOME.items() for name in names}


def test_the_types_are_announced_and_travel_in_the_wheel():
    assert (PACKAGE / "py.typed").read_text() == ""
    wheel = (PACKAGE.parent / "pyproject.toml").read_text().partition("[tool.hatch.build.targets.wheel]")[2].partition("[tool.")[0]
    assert wheel.strip() == 'packages = ["onkel"]'  # everything in the package, nothing left out


@pytest.mark.slow
def test_a_type_checker_finds_misuse(tmp_path):
    api = pytest.importorskip("mypy.api")
    user = tmp_path / "user.py"
    user.write_text(
        "import onkel\n"
        "model = onkel.KernelClassifier(budget=64)\n"
        'onkel.KernelClassifier(budget="lots")\n'
        "onkel.KernelClasifier()\n"
    )
    options = ["--strict", "--follow-imports=silent", f"--config-file={tmp_path / 'none.ini'}", f"--cache-dir={tmp_path}"]
    (tmp_path / "none.ini").write_text("[mypy]\n")
    out, _, failed = api.run([*options, str(user)])
    told = [line.partition("user.py:")[2] for line in out.splitlines() if "user.py:" in line]
    assert failed
    assert [line.partition(" error: ")[2].partition(" ")[0] for line in told] == ["Argument", "Module"], out
    assert [line.partition(":")[0] for line in told] == ["3", "4"], out


# --- the expansion under the names of scikit-learn ------------------------------------------------------------------------------

rng = np.random.default_rng(0)
X, NEW = rng.normal(size=(300, 3)), rng.normal(size=(40, 3))
TWO, THREE = X[:, 0] * X[:, 1] > 0, (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
REAL = 1e3 * np.sin(X[:, 0]) + 7.0

EXPANSIONS = {
    "two classes": (KernelClassifier(budget=20), TWO, SVC()),
    "two classes, offset": (KernelClassifier(budget=20, offset=True, step="explicit", loss="logistic"), TWO, SVC()),
    "three classes": (KernelClassifier(budget=20, offset=True), THREE, SVC(decision_function_shape="ovr")),
    "related classes": (KernelClassifier(budget=20, labels={0: "a", 1: "a", 2: None, "a": None}), THREE, None),
    "numbers": (KernelRegressor(budget=20), REAL, SVR()),
    "numbers in units": (KernelRegressor(budget=20, step="adaptive", interval="local"), REAL, SVR()),
    "novelty": (NoveltyDetector(budget=20), None, OneClassSVM()),
    "novelty, nu-trick": (NoveltyDetector(budget=20, step="explicit", offset=True), None, OneClassSVM()),
}


def decided(model, rows):
    return model.predict(rows) if hasattr(model, "predict_interval") else model.decision_function(rows)


def rebuilt(model, K):
    f = K @ model.dual_coef_.T + model.intercept_
    return f[:, 0] if f.shape[1] == 1 else f


@pytest.mark.parametrize("case", EXPANSIONS)
def test_the_expansion_gives_the_decision(case):
    model, y, peer = EXPANSIONS[case]
    model = model.partial_fit(X, y)
    K = rbf_kernel(NEW, model.support_vectors_, gamma=model.gamma_)
    truth = decided(model, NEW)
    np.testing.assert_allclose(rebuilt(model, K), truth, rtol=1e-10, atol=1e-10 * np.abs(truth).max())
    k = len(model.support_vectors_)
    assert 1 < k <= 20
    assert (model.n_iter_, model.t_) == (1, 300)
    if peer is not None and case != "three classes":  # whose SVC is one of pairs
        peer.fit(X, y)
        assert model.dual_coef_.shape == (peer.dual_coef_.shape[0], k)
        assert model.intercept_.shape == peer.intercept_.shape
    rows = model.dual_coef_.shape[0]
    assert rows == {"three classes": 3, "related classes": 3}.get(case, 1)
    assert model.intercept_.shape == (rows,)
    kept = persist.loads(persist.dumps(model))
    for name in ("support_vectors_", "dual_coef_", "intercept_", "n_iter_", "t_"):
        assert np.array_equal(getattr(kept, name), getattr(model, name))
    model.learn_one(X[0], *[] if y is None else [y[0]])
    assert model.t_ == 301


def test_points_with_gaps_sparse_ones_and_objects():
    gaps = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    model = KernelRegressor(budget=20, missing="ignore").partial_fit(gaps, REAL)
    points = model.support_vectors_
    assert points.shape == (20, 3)
    assert np.isnan(points).any()
    K = Observed(onkel.RBF.of_gamma(model.gamma_, 0, 0))(with_mask(NEW), with_mask(points))
    np.testing.assert_allclose(rebuilt(model, K), model.predict(NEW), rtol=1e-10, atol=1e-8)

    sparse = NoveltyDetector(budget=20, kernel="linear").partial_fit(csr_matrix(X))
    assert issparse(sparse.support_vectors_)
    K = NEW @ sparse.support_vectors_.toarray().T
    np.testing.assert_allclose(rebuilt(sparse, K), sparse.decision_function(csr_matrix(NEW)), rtol=1e-10, atol=1e-10)

    words = KernelClassifier(lambda A, B: np.array([[float(a[0] == b[0]) + (a == b) for b in B] for a in A]), budget=4)
    words.partial_fit(["ab", "ba", "aa", "bb"], [0, 1, 0, 1])
    assert set(words.support_vectors_) <= {"ab", "ba", "aa", "bb"}

    alone = KernelClassifier(budget=20).partial_fit(X, np.zeros(300, int))  # f = 0 is right for the only class there is
    assert alone.dual_coef_.shape == (1, len(alone.support_vectors_))
    assert alone.intercept_.tolist() == [0.0]


@pytest.mark.parametrize("name", ["support_vectors_", "dual_coef_", "intercept_", "n_iter_", "t_"])
def test_nothing_learned_has_no_expansion_and_none_can_be_set(name):
    model = KernelRegressor()
    assert not hasattr(model, name)
    with pytest.raises(AttributeError):
        setattr(model, name, 0)


# --- weights of classes ----------------------------------------------------------------------------------------------------

NAMES = np.array(["left", "right", "up"])[THREE]
WEIGHTS = {"left": 5.0, "up": 0.25, "never seen": 9.0}
OWN = np.array([WEIGHTS.get(name, 1.0) for name in NAMES.tolist()])
SHAPES = [{}, {"gamma": 0.5, "coverage": 0.8}, {"step": "adaptive"}, {"budget": None}]


def same(first, second):
    asks = "decision_function", "predict_proba"
    return all(np.array_equal(getattr(first, ask)(NEW), getattr(second, ask)(NEW)) for ask in asks)


@pytest.mark.parametrize("options", SHAPES, ids=str)
def test_class_weight_multiplies_sample_weight_however_examples_come(options):
    options = {"budget": 20, **options}
    whole = KernelClassifier(**options, class_weight=WEIGHTS).partial_fit(X, NAMES)
    assert same(whole, KernelClassifier(**options).partial_fit(X, NAMES, sample_weight=OWN))
    assert not same(whole, KernelClassifier(**options).partial_fit(X, NAMES))

    twin = onkel_river.KernelClassifier(**options, class_weight=WEIGHTS)
    one = KernelClassifier(**options, class_weight=WEIGHTS)
    for x, y in zip(X, NAMES.tolist()):
        one.learn_one(x, y)
        twin.learn_one(dict(enumerate(x)), y)
    cut = KernelClassifier(**options, class_weight=WEIGHTS)
    for piece in np.split(np.arange(300), [1, 3, 50, 51, 130]):
        cut.partial_fit(X[piece], NAMES[piece])
    assert same(whole, one)
    assert same(whole, cut)
    assert same(whole, twin._made)
    assert one.predict_one(NEW[0]) == whole.predict(NEW[:1])[0]

    mine = rng.uniform(0, 2, 300) * (rng.random(300) < 0.8)
    both = KernelClassifier(**options, class_weight=WEIGHTS).partial_fit(X, NAMES, sample_weight=mine)
    assert same(both, KernelClassifier(**options).partial_fit(X, NAMES, sample_weight=mine * OWN))


@pytest.mark.parametrize("cut", [40, 200])
def test_class_weight_is_kept_and_stays_what_it_was(cut):
    table = dict(WEIGHTS)
    model = KernelClassifier(budget=20, class_weight=table).partial_fit(X[:cut], NAMES[:cut])
    kept, copied = persist.loads(persist.dumps(model)), clone(model)
    assert kept.class_weight == WEIGHTS
    table["left"] = 100.0
    for again in (model, kept, model.snapshot(), persist.loads(persist.dumps(model))):
        again.partial_fit(X[cut:], NAMES[cut:])
        assert same(again, KernelClassifier(budget=20, class_weight=WEIGHTS).partial_fit(X, NAMES))
    assert copied.class_weight == WEIGHTS


def test_class_weight_of_one_changes_nothing_and_a_heavy_class_wins():
    assert same(KernelClassifier(budget=20, class_weight={}).fit(X, NAMES), KernelClassifier(budget=20).fit(X, NAMES))
    assert same(KernelClassifier(budget=20, class_weight={"up": 1}).fit(X, NAMES), KernelClassifier(budget=20).fit(X, NAMES))
    noise = rng.permutation(NAMES)
    models = (KernelClassifier(class_weight={"left": w}, lam=1e-2, C=0.1).fit(X, noise) for w in (0.01, 1, 50))
    share = [(model.predict(NEW) == "left").mean() for model in models]
    assert share == sorted(share)
    assert share[2] > share[0] + 0.3


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("balanced", "a stream does not tell"),
        ("even", "must be a dict"),
        ([1.0, 2.0], "must be a dict"),
        ({"left": 0.0}, "'left' must be a positive finite number; got 0.0"),
        ({"left": -1}, "must be a positive"),
        ({"left": np.nan}, "must be a positive"),
        ({"left": np.inf}, "must be a positive"),
        ({"left": "3"}, "must be a positive"),
        ({"left": None}, "must be a positive"),
        ({"left": True}, "must be a positive"),
    ],
    ids=str,
)
def test_a_bad_class_weight_is_refused(bad, why):
    model = KernelClassifier(class_weight=bad)
    with pytest.raises(ValueError, match=why):
        model.partial_fit(X, NAMES)
    with pytest.raises(ValueError, match=why):
        model.learn_one(X[0], "left")
    assert model.model_ is None


def test_weights_that_overflow_together_are_refused():
    with pytest.raises(ValueError, match="must be finite"):
        KernelClassifier(class_weight={"left": 1e300}).fit(X, NAMES, sample_weight=np.full(300, 1e300))
