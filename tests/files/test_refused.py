"""Files: nothing run, nothing broken accepted."""

import copy
import hashlib
import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import onkel
from onkel import persist
from onkel.persist import BadFile
from onkel.saved.tree import Given
from tests.files.forge import edited, put_together, sealed, taken_apart, with_array
from tests.files.models import ESTIMATORS, LEARNERS, RBF, Hinge, data, fitted, same, spectrum


@pytest.fixture(scope="module")
def blob():
    learner = onkel.silk(RBF, Hinge, budget=16)
    X, y = data(100)
    return persist.dumps((learner, learner.learn(learner.init(), X, y)[0]), {"note": "kept"})


def test_a_file_is_an_npz_that_numpy_reads(blob, tmp_path):
    (tmp_path / "m.npz").write_bytes(blob)
    with np.load(tmp_path / "m.npz", allow_pickle=False) as archive:
        assert archive["model.state.coef"].shape == (1, 16)
    assert put_together(taken_apart(blob)) != blob  # our dates are fixed, others' are not
    assert same(persist.loads(put_together(taken_apart(blob))), persist.loads(blob))


def test_truncated_files_are_refused(blob):
    for length in [*range(0, 200), *range(200, len(blob), 97), len(blob) - 1]:
        with pytest.raises(BadFile):
            persist.loads(blob[:length])


def test_no_changed_byte_gets_through(blob):
    """Either the change is seen, or it was in the zip's own small print (a date) and the model is the same."""
    wanted = persist.dumps(persist.loads(blob))
    harmless = 0
    for place in range(0, len(blob), 3):
        changed = bytearray(blob)
        changed[place] ^= 1 << (place % 8)
        try:
            model = persist.loads(bytes(changed))
        except BadFile:
            continue
        harmless += 1
        assert persist.dumps(model) == wanted
    assert harmless < len(blob) / 30


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_noise_is_refused(noise):
    for blob in (noise, b"PK\x03\x04" + noise, put_together({"onkel.json": noise})):
        with pytest.raises(BadFile):
            persist.loads(blob)


def test_an_edited_header_is_refused(blob):
    members = taken_apart(blob)
    members["onkel.json"] = members["onkel.json"].replace(b'"sigma": 1.0', b'"sigma": 2.0')
    with pytest.raises(BadFile, match="changed after it was written"):
        persist.loads(put_together(members))


def test_a_newer_format_is_refused_before_anything_else(blob):
    with pytest.raises(BadFile, match=r"by onkel 9\.0.*format 2.*Upgrade"):
        persist.loads(edited(blob, format=2, onkel="9.0", kind="from the future"))


def test_unknown_kinds_and_parts_are_refused(blob):
    for change in (
        {"kind": "os.system"},
        {"kind": ["learner"]},
        {"kind": "estimators.check_array"},
        {"model": {"is": "eval", "text": "1"}},
        {"model": {"is": "RBF", "sigma": -1.0}},
        {"model": {"is": "RBF", "sigma": 1.0, "more": 1}},
        {"model": {"is": "Labels", "flat": 10**9}},
        {"model": {"is": "array", "name": "absent"}},
        {"model": {"is": "number", "dtype": "|O", "value": 1}},
        {"model": {"is": ["RBF"]}},
        {"model": 3},
        {"arrays": {}},
        {"arrays": 3},
        {"format": "1"},
        {"format": True},
        {"format": -(10**30), "model": None},
        {"notes": {"is": "kernel", "name": "os.system"}},
    ):
        with pytest.raises(BadFile):
            persist.loads(edited(blob, **change))


def test_deep_nesting_is_refused(blob):
    members = taken_apart(blob)
    deep = members["onkel.json"].replace(b'"notes": {', b'"notes": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b", ")
    members |= {"onkel.json": deep, "onkel.sha256": hashlib.sha256(deep).hexdigest().encode()}
    with pytest.raises(BadFile):
        persist.loads(put_together(members))


def test_bombs_are_refused_before_they_unfold(blob):
    members = taken_apart(blob)
    with pytest.raises(BadFile, match="compressed"):
        persist.loads(put_together(members, zipfile.ZIP_DEFLATED))
    bomb = {"onkel.json": b" " * 50_000_000}
    with pytest.raises(BadFile, match="compressed"):
        persist.loads(put_together(bomb, zipfile.ZIP_DEFLATED))
    head = json.loads(members["onkel.json"])
    head["arrays"]["model.state.coef"]["shape"] = [1, 2**40]
    huge = members["model.state.coef.npy"].replace(b"(1, 16)", b"(1, %d)" % 2**40)
    with pytest.raises(BadFile):
        persist.loads(sealed({**members, "model.state.coef.npy": huge}, head))


def test_members_that_overlap_are_refused(blob):
    """A small file could name the same bytes a thousand times."""
    out = io.BytesIO(blob)
    with zipfile.ZipFile(out, "a") as archive:
        entry = archive.getinfo("onkel.json")
        for i in range(100):
            twin = copy.copy(entry)
            twin.filename = f"{i}.npy"
            archive.filelist.append(twin)
        archive._didModify = True
    with pytest.raises(BadFile, match="overlap"):
        persist.loads(out.getvalue())


class Trap:
    def __reduce__(self):
        return os._exit, (77,)


def test_a_pickle_is_never_opened(blob):
    with pytest.raises(BadFile):
        persist.loads(with_array(blob, "model.state.coef", np.array([[Trap()] * 16], object)))
    with pytest.raises(BadFile):
        persist.loads(pickle.dumps(Trap()))


def test_a_user_kernel_must_be_given(tmp_path):
    learner = onkel.silk(spectrum, Hinge)
    onkel.save((learner, learner.init()), tmp_path / "m.onkel")
    with pytest.raises(BadFile, match=r"m\.onkel.*kernel 'spectrum'.*kernels=\{'spectrum': \.\.\.\}"):
        onkel.load(tmp_path / "m.onkel")
    assert onkel.load(tmp_path / "m.onkel", kernels={"spectrum": spectrum})[0] == learner


NUMBERS = ("t", "n", "used", "head", "scale", "theta", "eta", "pi", "count", "stale")


@settings(max_examples=150)
@given(
    name=st.sampled_from(sorted({"silk", "norma", "svmd", "project"})),
    number=st.sampled_from(NUMBERS),
    value=st.sampled_from(
        [-1.0, 0.0, 0.5, 3.0, 15.0, 16.0, 17.0, 1e9, 1e300, {"is": "float", "text": "nan"}, "x", None, [1], 2**70]
    ),
)
def test_no_edited_number_leads_the_compiled_loop_astray(name, number, value):
    """The loop trusts what the state says about itself, so whatever is accepted must be safe to learn with."""
    learner = LEARNERS[name]
    X, y = data(60)
    members = taken_apart(persist.dumps((learner, learner.learn(learner.init(), X, y)[0])))
    head = json.loads(members["onkel.json"])
    head["model"]["state"]["numbers"][number] = value
    try:
        learner, state = persist.loads(sealed(members, head))
    except BadFile:
        return
    try:
        state, _ = learner.learn(state, X, y)
    except FloatingPointError:
        return
    assert np.isfinite(learner.score(state, X)).all()


@settings(max_examples=150)
@given(st.data())
def test_no_edited_array_leads_the_compiled_loop_astray(draw):
    learner = LEARNERS[draw.draw(st.sampled_from(["silk", "norma", "svmd", "merge"]))]
    X, y = data(60)
    blob = persist.dumps((learner, learner.learn(learner.init(), X, y)[0]))
    model = persist._read(io.BytesIO(blob), "bytes", Given())[0]
    head = json.loads(taken_apart(blob)["onkel.json"])
    name = draw.draw(st.sampled_from(sorted(head["arrays"])))
    array = np.load(io.BytesIO(taken_apart(blob)[f"{name}.npy"]))
    how = draw.draw(st.sampled_from(["value", "shape", "dtype"]))
    if how == "value" and array.size:
        odd = (
            st.sampled_from([-2, -1, 0, 10**6, 2**31])
            if array.dtype.kind == "i"
            else st.sampled_from([np.nan, np.inf, -1.0, 1e300])
        )
        array.ravel()[draw.draw(st.integers(0, array.size - 1))] = draw.draw(odd)
    elif how == "shape":
        array = np.concatenate([array, array], axis=draw.draw(st.integers(0, array.ndim - 1)))
    else:
        array = array.astype(draw.draw(st.sampled_from([np.float32, np.int8, np.int64, "U8"])))
    try:
        learner, state = persist.loads(with_array(blob, name, array))
    except BadFile:
        return
    try:
        state, _ = learner.learn(state, X, y)
    except FloatingPointError:
        return
    assert model[0] == learner
    assert np.isfinite(state.coef).all()


@pytest.mark.parametrize("name", ["classifier", "regressor"])
@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("cells", np.zeros(1)),
        ("cells", np.zeros(0)),
        ("cells", np.full(50, np.nan)),
        ("cells", np.zeros((5, 5))),
        ("cells", None),
        ("width", 10**9),
        ("width", 0),
        ("width", "3"),
        ("gamma", -1.0),
        ("gamma", "wide"),
        ("gamma", None),
        ("hurry", 10**12),
        ("hurry", -5),
        ("hurry", "soon"),
        ("classes", []),
        ("classes", ["no", "yes", "more"]),
        ("classes", 3),
        ("first", {"X": np.zeros((3, 1)), "y": [], "weight": None}),
        ("declared", 7),
    ],
    ids=repr,
)
def test_no_edited_part_of_an_estimator_leads_the_compiled_loop_astray(name, part, value):
    estimator, _ = fitted(ESTIMATORS[name](), 150)
    header = estimator._to_file()
    header["model"] = {**header["model"], part: value}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(estimator), "_to_file", lambda self: dict(header))
        blob = persist.dumps(estimator)
    try:
        again = persist.loads(blob)
    except BadFile:
        return
    try:
        fitted(again, 50)
    except (ValueError, TypeError, FloatingPointError):
        return
    assert np.isfinite(again.state_.coef).all()
    if hasattr(again, "predict_proba"):
        assert np.isfinite(again.predict_proba(data(5)[0])).all()


def test_no_edited_count_leads_the_loop_over_colours_astray():
    from onkel.video import BackgroundSubtractor

    camera = BackgroundSubtractor(threads=1)
    camera.apply(np.zeros((12, 20, 3), np.uint8))
    blob = persist.dumps(camera)
    (name,) = (name for name in json.loads(taken_apart(blob)["onkel.json"])["arrays"] if name.endswith("used0"))
    for count in (0, 9, 255):
        with pytest.raises(BadFile, match="counts of stored colours"):
            persist.loads(with_array(blob, name, np.full_like(camera._models[0].used, count)))


def test_an_edited_sparse_store_is_refused():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(60, 30)) * (rng.random((60, 30)) < 0.2)
    learner = onkel.silk(RBF, Hinge, budget=16)
    blob = persist.dumps((learner, learner.learn(learner.init(), csr_matrix(dense), np.sign(rng.normal(size=60)))[0]))
    members = taken_apart(blob)
    for name, value in (("begin", 10**9), ("begin", -1), ("length", 10**9), ("length", -5), ("indices", 30), ("indices", -1)):
        array = np.load(io.BytesIO(members[f"model.state.points.{name}.npy"]))
        array[0] = value
        with pytest.raises(BadFile, match="points"):
            persist.loads(with_array(blob, f"model.state.points.{name}", array))


def changed(model, change):
    """Its file, with the header changed by a function and everything sealed again."""
    members = taken_apart(persist.dumps(model))
    head = json.loads(members["onkel.json"])
    change(head["model"])
    return sealed(members, head)


def test_more_classes_than_the_label_set_has():
    """learn_one would write scores of a class that has no place."""
    model = onkel.KernelClassifier(budget=8, gamma=1.0, labels=[-1, 0, 0, 1, 1]).fit(data(40)[0], np.arange(40) % 3)
    for more in ([*range(3), "c997"], list(range(1000)), [0, 1, 1], [0, 1]):
        with pytest.raises(BadFile, match="classes"):
            persist.loads(changed(model, lambda tree, more=more: tree["header"]["model"].update(classes=more)))
    for parents in ([-1, 0, 0, 0, 1, 1], [-1] * 5, [-1, *range(5000)]):
        with pytest.raises(BadFile):
            persist.loads(changed(model, lambda tree, parents=parents: tree["header"]["params"].update(labels=parents)))


def test_examples_that_wait_with_features_that_are_not_there():
    X = csr_matrix(np.random.default_rng(0).random((50, 30)) * (np.random.default_rng(1).random((50, 30)) < 0.2))
    blob = persist.dumps(onkel.KernelClassifier(budget=8).partial_fit(X, np.arange(50) % 2))
    members = taken_apart(blob)
    (name,) = (name for name in members if name.endswith("first.X.indices.npy"))
    for value in (30, 100_000, 999_999, -1):
        indices = np.load(io.BytesIO(members[name]))
        indices[3:9] = value
        with pytest.raises(BadFile, match="first examples"):
            persist.loads(with_array(blob, name.removesuffix(".npy"), indices))


@pytest.mark.parametrize(
    "note",
    [
        {"is": "number", "dtype": "|S1", "value": 3_000_000_000},
        {"is": "number", "dtype": "<U1", "value": 5},
        {"is": "number", "dtype": "<f8", "value": "1" * 100},
        {"is": "number", "dtype": "<M8[s]", "value": 5},
    ],
    ids=str,
)
def test_a_number_is_of_its_type(blob, note):
    with pytest.raises(BadFile, match="a number of type"):
        persist.loads(edited(blob, notes={"note": note}))


@pytest.mark.parametrize(("depth", "fine"), [(16, True), (17, False), (60, False)])
def test_kernels_that_nobody_could_compile(depth, fine):
    learner = LEARNERS["silk"]

    def nest(tree):
        for _ in range(depth):
            tree["learner"]["kernel"] = {"is": "Sum", "left": tree["learner"]["kernel"], "right": {"is": "RBF", "sigma": 1.0}}

    blob = changed((learner, learner.init()), nest)
    if fine:
        assert persist.loads(blob)[1].t == 0
    else:
        with pytest.raises(BadFile, match="deep"):
            persist.loads(blob)


@pytest.mark.parametrize("rule", ["fold", "silk"])
def test_cameras_and_their_numbers(rule):
    from onkel.video import BackgroundSubtractor

    camera = BackgroundSubtractor(rule, threads=1)
    camera.apply(np.zeros((12, 20, 3), np.uint8))
    for change in ({"cameras": 10**8}, {"cameras": 2}, {"shape": [12, 20]}, {"shape": [1, 12, 20, 3]}, {"scalars": []}):
        with pytest.raises(BadFile):
            persist.loads(changed(camera, lambda tree, change=change: tree["header"].update(change)))
    for change in ({"frames": -5}, {"scale": 0.0}, {"scale": {"is": "float", "text": "nan"}}, {"frames": 10**30}):
        with pytest.raises(BadFile, match=r"its (numbers|decay)"):
            persist.loads(changed(camera, lambda tree, change=change: tree["header"]["scalars"][0].update(change)))
    blob = persist.dumps(camera)
    (name,) = (name for name in json.loads(taken_apart(blob)["onkel.json"])["arrays"] if name.endswith("coef0"))
    for value in (np.nan, np.inf, -1.0, 1e30):
        with pytest.raises(BadFile, match="its coef"):
            persist.loads(with_array(blob, name, np.full_like(camera._models[0].coef, value)))


@pytest.mark.parametrize(
    "change",
    [{"arrays": {"a": 3}}, {"arrays": {"a": {"dtype": "<f8", "shape": [-1], "sha256": ""}}}, {"notes": []}, {"notes": None}],
)
def test_odd_headers_are_refused_by_who_reads_the_header_alone(blob, change, tmp_path):
    (tmp_path / "m.onkel").write_bytes(edited(blob, **change))
    with pytest.raises(BadFile, match="header"):
        persist.header(tmp_path / "m.onkel")


def test_pickles_are_compared_as_files_are():
    learner = LEARNERS["merge"]
    state, _ = learner.learn(learner.init(), *data(60))
    for harm in (lambda s: s.num.__setitem__(2, 1e6), lambda s: s.slots.fill(np.nan), lambda s: setattr(s, "born", s.born[:3])):
        broken = state.copy()
        harm(broken)
        with pytest.raises(ValueError, match="damaged"):
            pickle.loads(pickle.dumps(broken))
    model = onkel.KernelClassifier(budget=8, gamma=1.0).fit(*data(60))
    model.model_.cells[:] = np.nan
    with pytest.raises(ValueError, match="calibration"):
        pickle.loads(pickle.dumps(model))


def test_a_model_that_began_anew_and_one_whose_parameters_changed():
    X, y = data(120)
    model = onkel.KernelClassifier(budget=8, gamma=1.0).fit(X, y)
    again = persist.loads(persist.dumps(model.set_params(budget=32)))
    assert again.budget == 32
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    assert same(again.partial_fit(X, y), model.partial_fit(X, y))
    model.state_.__dict__.update(model.learner_.init().__dict__, width=3)  # as after a drift with "restart"
    assert persist.loads(persist.dumps(model)).partial_fit(X, y).state_.t == 120
