"""`onkel run`, killed at any moment: the file that is there is whole, and going on from it ends in the same model."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

import onkel
from tests.commands.support import QUICK, ROOT, as_csv, onkel_run, stream

KILLS = int(os.environ.get("ONKEL_KILLS", "100"))


@pytest.mark.slow
def test_a_hundred_kills(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    as_csv(tmp_path / "a.csv", *stream(60_000))
    words = ["a.csv", "--target", "label", *QUICK]
    assert onkel_run(*words, "--out", "straight", "--quiet") == 0
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    chance, kills = random.Random(0), 0
    while kills < KILLS:
        more = ["a.csv", "--resume", "a.onkel"] if (tmp_path / "a.onkel").exists() else words
        call = [sys.executable, "-m", "onkel", "run", *more, "--no-figure", "--quiet", "--save-every", "1000"]
        process = subprocess.Popen(call, env=environment, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.5, 4.0))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
        if (tmp_path / "a.onkel").exists():
            run = onkel.load("a.onkel")
            assert run.tally.rows % 1000 == 0
            if run.tally.rows == 60_000:
                assert (tmp_path / "a.onkel").read_bytes() == (tmp_path / "straight.onkel").read_bytes()
                (tmp_path / "a.onkel").unlink()
    if (tmp_path / "a.onkel").exists():
        assert onkel_run("a.csv", "--resume", "a.onkel", "--quiet") == 0
        assert (tmp_path / "a.onkel").read_bytes() == (tmp_path / "straight.onkel").read_bytes()
    assert len(list(tmp_path.glob(".*.part"))) <= 1  # the next writer of a file takes away what a killed one left
