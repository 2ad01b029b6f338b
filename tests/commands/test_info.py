"""`onkel info`: what stands in a header, as a person reads it."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import onkel
from onkel import cli, persist
from onkel.commands import info
from onkel.terminal.escape import for_terminal
from tests.commands.support import QUICK, as_csv, onkel_run, stream

# --- info -------------------------------------------------------------------------------------------------------------------------

NAMES = [
    "model",
    "header",
    "tally",
    "params",
    "classes",
    "state",
    "numbers",
    "learner",
    "width",
    "arrays",
    "notes",
    "dtype",
    "shape",
]
NAMES += ["shape", "is", "value", "features", "t", "n", "gamma", "kernel", "source", "rows"]


def test_info(folder, capsys):
    as_csv(folder / "a.csv", *stream(300))
    assert onkel_run("a.csv", "--target", "label", *QUICK) == 0
    learner = onkel.svmd(onkel.RBF(0.5) + onkel.Linear(), onkel.Hinge(), budget=9)
    onkel.save((learner, learner.init()), folder / "m.onkel")
    capsys.readouterr()
    assert cli.main(["info", "a.onkel"]) == 0
    shown = capsys.readouterr().out
    for part in (
        "prequential.Run",
        "classes",
        "label",
        "x0, x1, x2",
        "300 rows of a.csv",
        "budget=16",
        "'down', 'up'",
        "points       16",
        "features     3 numbers",
    ):
        assert part in shown
    assert cli.main(["info", "m.onkel"]) == 0
    assert "Sum(left=RBF(sigma=0.5), right=Linear())" in capsys.readouterr().out
    assert cli.main(["info", "m.onkel", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "learner"
    for bad in ("a.csv", "absent.onkel"):
        assert cli.main(["info", bad]) == 1
        assert "onkel info: " in capsys.readouterr().err


def test_info_adds_up_the_bytes(folder):
    learner = onkel.silk(onkel.RBF(), onkel.Hinge(), budget=16)
    state, _ = learner.learn(learner.init(), np.zeros((2, 3), np.float32), [1.0, -1.0])
    onkel.save((learner, state), folder / "m.onkel")
    with np.load(folder / "m.onkel") as archive:
        sizes = sum(archive[name].nbytes for name in archive.files if not name.startswith("onkel"))
    assert sum(map(info.bytes_of, persist.header(folder / "m.onkel")["arrays"].values())) == sizes


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), inner, max_size=5),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(NAMES), JSON, max_size=6))
def test_an_odd_header_is_shown_as_far_as_it_goes(head):
    """No traceback, whatever stands where; and nothing of it acts on the terminal."""
    for name, value in info.facts(head):
        assert isinstance(value, str), name
        assert for_terminal(value).isprintable()


def test_notes_and_a_check_of_the_whole_file(folder, capsys):
    learner = onkel.silk(onkel.RBF(), onkel.Hinge(), budget=16)
    state, _ = learner.learn(learner.init(), np.zeros((2, 3)), [1.0, -1.0])
    onkel.save((learner, state), folder / "m.onkel", notes={"from": "a\x1b[2Jb"})
    assert cli.main(["info", "m.onkel", "--check"]) == 0
    shown = capsys.readouterr().out
    assert "from: 'a\\x1b[2Jb'" in shown
    assert "every array and number of it is sound" in shown
    content = bytearray((folder / "m.onkel").read_bytes())
    content[content.index(b"coef.npy") + 300] ^= 1
    (folder / "m.onkel").write_bytes(bytes(content))
    assert cli.main(["info", "m.onkel", "--check"]) == 1
    assert "onkel info --check: m.onkel" in capsys.readouterr().err
