"""`onkel info`: what stands in a header, as a person reads it."""

import json

import numpy as np

import onkel
from onkel import cli, persist
from onkel.commands import info
from tests.commands.support import QUICK, as_csv, onkel_run, stream

# --- info -------------------------------------------------------------------------------------------------------------------------


def test_info(here, capsys):
    as_csv(here / "a.csv", *stream(300))
    assert onkel_run("a.csv", "--target", "label", *QUICK) == 0
    learner = onkel.svmd(onkel.RBF(0.5) + onkel.Linear(), onkel.Hinge(), budget=9)
    onkel.save((learner, learner.init()), here / "m.onkel")
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


def test_info_adds_up_the_bytes(here):
    learner = onkel.silk(onkel.RBF(), onkel.Hinge(), budget=16)
    state, _ = learner.learn(learner.init(), np.zeros((2, 3), np.float32), [1.0, -1.0])
    onkel.save((learner, state), here / "m.onkel")
    with np.load(here / "m.onkel") as archive:
        sizes = sum(archive[name].nbytes for name in archive.files if not name.startswith("onkel"))
    assert sum(map(info.bytes_of, persist.header(here / "m.onkel")["arrays"].values())) == sizes
