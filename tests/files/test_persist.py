"""Files: the same model to the bit."""

import ast
import base64
import copy
import io
import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import onkel
from onkel import persist
from onkel.core.maths.budget import Rule
from onkel.core.maths.value import DEFINED
from onkel.core.points.missing import Observed
from onkel.persist import BadFile
from onkel.saved.tree import Given, build, describe
from onkel.theory import Growing
from tests.files.models import ESTIMATORS, LEARNERS, RBF, Hinge, data, fitted, learned, same, scores, slow_schedule, spectrum

KEPT = Path(__file__).parent


def cut_in_two(learner, X, y, cut, **given):
    """Learned in two parts without and with a file in between."""
    state, _ = learner.learn(learner.init(), X[:cut], y[:cut])
    again, restored = persist._read(io.BytesIO(persist.dumps((learner, state))), "bytes", Given(**given))[0]
    assert again == learner
    assert same((learner, state), (again, restored))
    straight, trace = learner.learn(state, X[cut:], y[cut:])
    resumed, traced = again.learn(restored, X[cut:], y[cut:])
    assert same((learner, straight), (again, resumed))
    assert np.array_equal(trace.scores, traced.scores)
    return again, resumed


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, np.float64) for name in LEARNERS), *((name, np.float32) for name in ("silk", "ilk", "svmd"))]
)
def test_saved_loaded_continued_is_the_same_model(name, dtype):
    X, y = data(300, dtype=dtype)
    functions = {"functions": {"slow_schedule": slow_schedule}} if name == "schedule" else {}
    for cut in (1, 17, 200):
        cut_in_two(LEARNERS[name], X, y, cut, **functions)


@settings(max_examples=20)
@given(cut=st.integers(1, 199), budget=st.integers(1, 40), seed=st.integers(0, 9))
def test_any_cut_any_budget(cut, budget, seed):
    X, y = data(200, seed=seed)
    cut_in_two(onkel.silk(RBF, Hinge, budget=budget), X, y, cut)


def test_wide_points_live_in_a_store():
    X, y = data(400, d=1000)
    learner = onkel.silk(onkel.RBF(20.0), Hinge, budget=150)
    _, state = cut_in_two(learner, X, y, 250)
    assert state.store is not None


def test_sparse_points():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(300, 30)) * (rng.random((300, 30)) < 0.2)
    _, state = cut_in_two(onkel.silk(RBF, Hinge, budget=16), csr_matrix(dense), np.where(rng.random(300) < 0.5, 1.0, -1.0), 170)
    assert state.points.shape == (16, 30)


def test_words_and_a_kernel_of_ones_own():
    words = ["".join(np.random.default_rng(i).choice(list("acgt"), 12)) for i in range(60)]
    y = np.array([1.0 if "ac" in word else -1.0 for word in words])
    learner = onkel.silk(spectrum, Hinge, budget=10)
    _, state = cut_in_two(learner, words, y, 30, kernels={"spectrum": spectrum})
    assert set(state.points) <= set(words)


def test_labels_in_a_tree_and_flat_ones():
    X, _ = data(200)
    y = (np.abs(X[:, 0]) * 2).astype(int) % 3
    for labels in (onkel.Labels.tree([-1, 0, 0, 1, 1]), onkel.Labels.flat(3)):
        cut_in_two(onkel.silk(RBF, onkel.Structured(labels), budget=16), X, y, 120)


def test_a_process_that_has_done_nothing_else_reads_every_value():
    code = "from onkel import persist; from onkel.core.maths.value import DEFINED; print(*DEFINED)"
    names = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    ).stdout.split()
    assert {name for name, cls in DEFINED.items() if cls.ours} == set(names)


def test_a_fresh_model():
    learner = LEARNERS["svmd"]
    again, state = persist.loads(persist.dumps((learner, learner.init())))
    assert again == learner
    assert state.t == state.size == state.width == 0
    assert np.array_equal(state.num, learner.init().num, equal_nan=True)


def test_every_part_survives():
    quartic = onkel.loss(lambda z, y: (z - y) ** 4, lambda z, y: 4 * (z - y) ** 3)
    labels = onkel.Labels([[0, 2], [2, 0]], [[1, 0.5], [0.5, 1]])
    parts = [
        onkel.RBF(0.1) + onkel.Matern(2.0, 2.5) * onkel.Polynomial(4, 0.1, 0.3),
        onkel.Laplacian(1 / 3) * onkel.Linear() * 0.5 + 2,
        *(onkel.Hinge(0.3), onkel.Square(), onkel.Logistic(), onkel.EpsilonInsensitive(0.2), onkel.Huber(0.7), onkel.Novelty(2.0)),
        *(onkel.Softmax(labels), onkel.Structured(labels, 0.5), onkel.Structured(onkel.Labels.flat(5))),
        *(onkel.InvSqrt(0.7), onkel.SqrtDecay(0.2, 30.0), Growing(0.25, 1e60)),
        *(onkel.Explicit(0.1), onkel.Implicit(onkel.InvSqrt(2.0), exact=True), onkel.Adaptive(eta_max=3.0), onkel.Alma(0.5)),
        *(onkel.Budget(7, "merge"), onkel.Budget(window=9)),
        Observed(onkel.Matern(2.0)),
        onkel.RandomFeatures(onkel.Matern(2.0), 64, 3).as_kernel(),
        quartic,
        spectrum,
    ]
    arrays = {}
    tree = json.loads(json.dumps(describe(parts, arrays), allow_nan=False))
    again = build(tree, arrays, Given(losses={"<lambda>": quartic}, functions={"spectrum": spectrum}))
    assert [(type(a), a) for a in again] == [(type(p), p) for p in parts]
    ours = {name for name, cls in DEFINED.items() if cls.ours and not issubclass(cls, Rule)} - {"Labels", "Matrix", "Pairwise"}
    assert all(f'"is": "{part}"' in json.dumps(tree) for part in ours)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(plain)
def test_plain_values_survive(value):
    arrays = {}
    assert build(json.loads(json.dumps(describe(value, arrays), allow_nan=False)), arrays, Given()) == value
    assert not arrays


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6).reshape(2, 3).T,
        np.array(["ä", "long name"]),
        np.array([b"x", b"yz"]),
        np.array(["2020-01-01"], "datetime64[D]"),
        np.array([1, "a", None, 2.5], object),
        np.zeros((3, 0, 2), np.int8),
        np.array(3.0),
        np.float32(0.1),
        np.int64(3),
        np.str_("a"),
        np.bool_(True),
        float("inf"),
        float("-inf"),
    ],
    ids=repr,
)
def test_values_of_numpy_survive(value):
    learner = LEARNERS["silk"]
    again = persist._read(io.BytesIO(persist.dumps((learner, learner.init()), {"value": value})), "bytes", Given())[1]["value"]
    assert type(again) is type(value)
    assert np.array_equal(again, value)
    assert getattr(again, "dtype", None) == getattr(value, "dtype", None)


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, onkel, np.zeros(2, [("a", int)]), range(3), np.array([object()])],
    ids=lambda value: type(value).__name__,
)
def test_what_would_need_code_is_refused_when_saving(value):
    with pytest.raises(TypeError, match="cannot be saved"):
        persist.dumps((LEARNERS["silk"], LEARNERS["silk"].init()), {"value": value})


def test_two_functions_of_one_name_are_refused():
    learner = onkel.silk(onkel.kernel(lambda x, z: x[0] * z[0]) + onkel.kernel(lambda x, z: 1.0), Hinge)
    with pytest.raises(ValueError, match="'<lambda>'"):
        persist.dumps((learner, learner.init()))


def test_save_says_what_it_takes(tmp_path):
    for model in (3, LEARNERS["silk"], (LEARNERS["silk"], None), "model"):
        with pytest.raises(TypeError, match=r"\(learner, state\)"):
            onkel.save(model, tmp_path / "m.onkel")
    assert not list(tmp_path.iterdir())


def test_pickle_copy_and_joblib_work_too(tmp_path):
    X, y = data(100)
    learner = LEARNERS["svmd"]
    pair = (learner, learner.learn(learner.init(), X, y)[0])
    joblib.dump(pair, tmp_path / "m.joblib")
    for again in (pickle.loads(pickle.dumps(pair)), copy.deepcopy(pair), joblib.load(tmp_path / "m.joblib")):
        assert same(again, pair)
        assert same((again[0], again[0].learn(again[1], X, y)[0]), (learner, learner.learn(pair[1], X, y)[0]))


# --- adapters: the same promise ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("examples", [30, 150])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_go_on(name, examples, tmp_path):
    """Before gamma is settled and after; sets, probabilities and intervals included."""
    estimator, _ = fitted(ESTIMATORS[name](), examples)
    onkel.save(estimator, tmp_path / "m.onkel")
    again = onkel.load(tmp_path / "m.onkel")
    assert type(again) is type(estimator)
    assert again.get_params() == estimator.get_params()
    assert same(again, estimator)
    X, _ = data(50, seed=1)
    for method in ("predict", "decision_function", "predict_proba", "predict_interval", "score_samples"):
        if hasattr(estimator, method):
            assert np.array_equal(getattr(estimator, method)(X), getattr(again, method)(X))
    assert same(fitted(again, 100, seed=2)[0], fitted(estimator, 100, seed=2)[0])


def test_an_estimator_that_has_learned_nothing():
    again = persist.loads(persist.dumps(onkel.KernelClassifier(budget=7, kernel=onkel.RBF(0.3))))
    assert (again.budget, again.kernel) == (7, onkel.RBF(0.3))
    fitted(again, 20)


def test_an_estimator_with_a_kernel_of_ones_own():
    words = ["".join(np.random.default_rng(i).choice(list("acgt"), 12)) for i in range(40)]
    y = ["ac" in word for word in words]
    estimator = onkel.KernelClassifier(spectrum, budget=8).fit(words, y)
    blob = persist.dumps(estimator)
    with pytest.raises(BadFile, match="kernels="):
        persist.loads(blob)
    again = persist.loads(blob, kernels={"spectrum": spectrum})
    assert np.array_equal(again.predict(words), estimator.predict(words))


def test_a_drift_detector_cannot_be_saved_but_the_model_can(tmp_path):
    from river.drift import ADWIN

    from onkel import river

    X, y = data(200)
    model = onkel.KernelClassifier(budget=16, drift=ADWIN()).partial_fit(X, y)
    with pytest.raises(TypeError, match=r"snapshot\(\)\.set_params\(drift=None\)"):
        onkel.save(model, tmp_path / "model.onkel")
    onkel.save(model.snapshot().set_params(drift=None), tmp_path / "model.onkel")
    assert model.drift is not None
    again = onkel.load(tmp_path / "model.onkel")
    assert again.drift is None
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    pickled = pickle.loads(pickle.dumps(model))
    assert np.array_equal(pickled.decision_function(X), model.decision_function(X))
    with pytest.raises(TypeError, match="pickle"):
        onkel.save(river.KernelClassifier(drift=ADWIN()), tmp_path / "river.onkel")


def test_names_of_classes_keep_their_types():
    X, _ = data(40)
    for names in ([1, 2], ["ä", "b"], [True, False], [1.0, 2.0]):
        estimator = onkel.KernelClassifier(budget=8, gamma=1.0).fit(X, np.array(names)[(X[:, 0] > 0).astype(int)])
        again = persist.loads(persist.dumps(estimator))
        assert again.classes_.dtype == estimator.classes_.dtype
        assert np.array_equal(again.predict(X), estimator.predict(X))


def test_an_estimator_of_ones_own_is_refused():
    class Mine(onkel.KernelClassifier):
        pass

    with pytest.raises(TypeError, match="Mine"):
        persist.dumps(Mine())


@pytest.mark.parametrize("rule", ["fold", "silk"])
def test_video_goes_on(rule):
    from onkel.video import BackgroundSubtractor

    frames = np.random.default_rng(0).integers(0, 255, (8, 12, 20, 3), dtype=np.uint8)
    camera = BackgroundSubtractor(rule, threads=1)
    for frame in frames[:4]:
        camera.apply(frame)
    again = persist.loads(persist.dumps(camera))
    for frame in frames[4:]:
        assert np.array_equal(camera.apply(frame), again.apply(frame))
    assert same(camera, again)


def test_every_class_that_can_be_saved_is_listed():
    """Found by reading: a class with both methods, by module and name."""
    package = Path(onkel.__file__).parent
    found = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and {"_to_file", "_from_file"} <= {getattr(item, "name", "") for item in node.body}:
                found.add(".".join(path.relative_to(package).with_suffix("").parts) + "." + node.name)
    listed = {f"{module}.{kind.rpartition('.')[2]}".removeprefix("onkel.") for kind, module in persist.ADAPTERS.items()}
    listed = {name for name in listed if not name.startswith(("auto.", "estimators.", "river."))}
    assert listed <= found
    bases = {"auto.base.Auto", "auto.scaler.Scaler", "auto.twins._Twin", "estimators.base.Stream", "river._RiverModel"}
    assert found - listed <= bases


# --- files of earlier versions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
def test_kept_files_load_and_go_on(path):
    """tests/files/README.md says how they were made; none of them is ever changed."""
    kept = json.loads(path.read_text())
    model = persist.loads(base64.b64decode(kept["file"]))
    X, more = np.array(kept["X"]), kept["more"]
    np.testing.assert_allclose(scores(model, X), kept["scores"], rtol=1e-9, atol=1e-12)
    model = learned(model, np.array(more["X"]), more["y"])
    np.testing.assert_allclose(scores(model, X), kept["scores_after"], rtol=1e-8, atol=1e-11)


def test_there_are_kept_files_of_every_format():
    formats = set()
    for path in KEPT.glob("*.json"):
        with zipfile.ZipFile(io.BytesIO(base64.b64decode(json.loads(path.read_text())["file"]))) as archive:
            formats.add(json.loads(archive.read("onkel.json"))["format"])
    assert formats == set(range(1, persist.FORMAT + 1))
