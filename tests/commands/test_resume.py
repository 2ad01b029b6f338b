"""`onkel run`, interrupted, killed and resumed: the same model in the end."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import onkel
from onkel.commands.scorecard import Run
from onkel.commands.tables import BLOCK
from tests.commands.support import QUICK, ROOT, as_csv, lines, onkel_run, stream

# --- interrupted and resumed ------------------------------------------------------------------------------------------------------


def test_interrupted_and_resumed_gives_the_same_file(folder, capsys):
    """A signal between two blocks, and the rest later: bit for bit what one go gives."""
    as_csv(folder / "a.csv", *stream(4 * BLOCK + 321))
    assert onkel_run("a.csv", "--target", "label", *QUICK, "--out", "straight") == 0
    learn, count = Run.learn, 0

    def interrupting(self, X, y, *more):
        nonlocal count
        count += 1
        if count == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return learn(self, X, y, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "learn", interrupting)
        assert onkel_run("a.csv", "--target", "label", *QUICK) == 130
    assert f"interrupted after {2 * BLOCK} rows" in capsys.readouterr().err
    assert json.loads((folder / "a.json").read_text())["complete"] is False
    assert onkel_run("a.csv", "--resume", "a.onkel") == 0
    assert (folder / "a.onkel").read_bytes() == (folder / "straight.onkel").read_bytes()
    straight, resumed = (json.loads((folder / f"{name}.json").read_text()) for name in ("straight", "a"))
    for report in (straight, resumed):
        del report["seconds"], report["rows_per_second"]
    assert straight == resumed


@pytest.mark.parametrize("model", ["ilk", "svmd"])
def test_killed_and_resumed_from_the_last_save(folder, model):
    """No chance to say goodbye: --save-every has left a whole file, and the run goes on from there."""
    as_csv(folder / "a.csv", *stream(3 * BLOCK))
    arguments = ("--target", "label", "--model", model, *(() if model == "ilk" else QUICK))
    assert onkel_run("a.csv", *arguments, "--out", "straight") == 0
    code = (
        "import os, sys; from onkel import cli; from onkel.commands import run as running\n"
        "def save(run, path, real=running.save):\n"
        "    real(run, path); os.kill(os.getpid(), 9)\n"
        "running.save = save\n"
        f"cli.main(['run', 'a.csv', *{arguments!r}, '--save-every', '1500'])"
    )
    died = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert died.returncode == -9
    assert onkel.load("a.onkel").tally.rows == 2 * BLOCK
    assert onkel_run("a.csv", "--resume", "a.onkel") == 0
    assert (folder / "a.onkel").read_bytes() == (folder / "straight.onkel").read_bytes()


def test_another_file_goes_on_and_a_changed_one_is_refused(folder, capsys):
    X, y = stream(2 * BLOCK)
    as_csv(folder / "monday.csv", X[:BLOCK], y[:BLOCK])
    as_csv(folder / "tuesday.csv", X[BLOCK:], y[BLOCK:])
    as_csv(folder / "both.csv", X, y)
    assert onkel_run("both.csv", "--target", "label", *QUICK) == 0
    assert onkel_run("monday.csv", "--target", "label", *QUICK, "--out", "week") == 0
    assert onkel_run("tuesday.csv", "--resume", "week.onkel") == 0
    week, both = onkel.load("week.onkel"), onkel.load("both.onkel")
    assert week.tally.rows == 2 * BLOCK
    assert np.array_equal(week.model.state_.coef, both.model.state_.coef)
    as_csv(folder / "tuesday.csv", X[5:BLOCK], y[5:BLOCK])
    assert onkel_run("tuesday.csv", "--resume", "week.onkel") == 1
    assert "does not begin as it did" in capsys.readouterr().err
    assert onkel_run("tuesday.csv", "--resume", "week.onkel", "--skip", "0") == 0


def test_a_file_that_has_grown_goes_on_where_it_ended(folder):
    X, y = stream(2 * BLOCK)
    as_csv(folder / "a.csv", X[:BLOCK], y[:BLOCK])
    assert onkel_run("a.csv", "--target", "label", *QUICK) == 0
    as_csv(folder / "a.csv", X, y)
    assert onkel_run("a.csv", "--resume", "a.onkel") == 0
    as_csv(folder / "b.csv", X, y)
    assert onkel_run("b.csv", "--target", "label", *QUICK) == 0
    assert np.array_equal(onkel.load("a.onkel").model.state_.coef, onkel.load("b.onkel").model.state_.coef)


def test_ctrl_c_while_waiting_for_input(folder):
    """A pipe that stays open: what has come is learned, the signal ends the wait."""
    process = subprocess.Popen(
        [sys.executable, "-m", "onkel", "run", "-", "--target", "label", *QUICK, "--no-figure", "--out", "live"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        cwd=folder,
    )
    process.stdin.write(("\n".join(lines(*stream(BLOCK))) + "\n").encode())
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not _sleeps(process.pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert onkel.load(folder / "live.onkel").tally.rows == BLOCK


def _sleeps(pid):
    """Whether the process has learned its block and waits in read: no processor time for a second."""
    if not os.path.exists(f"/proc/{pid}/stat"):
        time.sleep(20)
        return True

    def used():
        return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))

    before = used()
    time.sleep(1.0)
    return before > 50 and used() == before
