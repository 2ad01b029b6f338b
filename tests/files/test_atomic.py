"""Files are written whole or not at all, and nothing is left over."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import onkel
from onkel.saved import atomic
from tests.files.models import LEARNERS, Hinge, data, same

CRASH = """
import os, sys, onkel
from onkel import persist
path, moment, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
learner = onkel.silk(onkel.RBF(2.0), onkel.Hinge())
calls = 0
real = getattr(os, moment)
def dying(*arguments):
    global calls
    calls += 1
    if calls == count:
        os.kill(os.getpid(), 9)
    return real(*arguments)
setattr(os, moment, dying)
onkel.save((learner, learner.init()), path)
"""


@pytest.mark.parametrize(
    ("moment", "count", "new"), [("open", 1, False), ("fsync", 1, False), ("replace", 1, False), ("fsync", 2, True)]
)
def test_killed_while_saving(tmp_path, moment, count, new):
    path = tmp_path / "m.onkel"
    old = onkel.silk(onkel.RBF(1.0), Hinge)
    onkel.save((old, old.init()), path)
    died = subprocess.run([sys.executable, "-c", CRASH, path, moment, str(count)], cwd=Path(__file__).parents[2])
    assert died.returncode == -9
    assert onkel.load(path)[0].kernel.sigma == (2.0 if new else 1.0)
    onkel.save((old, old.init()), path)
    assert os.listdir(tmp_path) == ["m.onkel"]  # what the dead process left is gone


def test_what_another_writer_is_writing_stays(tmp_path):
    path = tmp_path / "m.onkel"
    with atomic.replacing(path) as slow:
        slow.write(b"slow")
        atomic.write(path, b"quick")
        assert path.read_bytes() == b"quick"
        assert len(os.listdir(tmp_path)) == 2
    assert path.read_bytes() == b"slow"
    assert os.listdir(tmp_path) == ["m.onkel"]


def test_a_full_disk_leaves_the_old_file_and_no_litter_and_says_which(tmp_path, monkeypatch):
    path = tmp_path / "m.onkel"
    path.write_bytes(b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space.*m\.onkel"):
        atomic.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["m.onkel"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
def test_a_disk_that_is_really_full_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(atomic, "_part_of", lambda target: (os.open("/dev/full", os.O_WRONLY), tmp_path / "part"))
    with pytest.raises(OSError, match=r"No space.*m\.onkel"):
        atomic.write(tmp_path / "m.onkel", b"new")


@pytest.mark.parametrize("act", [atomic.check, lambda path: atomic.write(path, b"new")])
def test_what_cannot_be_written_is_said_before_any_work(act, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError, match="folder; give the name of a file"):
        act(tmp_path / "folder")
    with pytest.raises(FileNotFoundError, match=r"absent/m\.onkel"):
        act(tmp_path / "absent" / "m.onkel")
    atomic.check(tmp_path / "m.onkel")
    assert os.listdir(tmp_path) == ["folder"]


def test_who_could_not_read_the_old_file_cannot_read_the_new_one(tmp_path):
    (tmp_path / "m.onkel").write_bytes(b"old")
    (tmp_path / "m.onkel").chmod(0o600)
    atomic.write(tmp_path / "m.onkel", b"new")
    assert (tmp_path / "m.onkel").stat().st_mode & 0o777 == 0o600


def test_a_link_keeps_pointing(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    atomic.write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_many_writers_one_whole_file(tmp_path):
    path = tmp_path / "m.onkel"
    learners = [onkel.silk(onkel.RBF(float(i + 1)), Hinge) for i in range(8)]
    threads = [threading.Thread(target=onkel.save, args=((one, one.init()), path)) for one in learners for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert onkel.load(path)[0] in learners
    assert os.listdir(tmp_path) == ["m.onkel"]


def test_missing_files_say_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        onkel.load(tmp_path / "absent.onkel")
    with pytest.raises(FileNotFoundError):
        onkel.save((LEARNERS["silk"], LEARNERS["silk"].init()), tmp_path / "no folder" / "m.onkel")


def learn_and_save(path, learner, X, y):
    """A job that goes on where its file says that it was, and saves after every few rows."""
    state = onkel.load(path)[1] if path.exists() else learner.init()
    while state.t < len(X):
        rows = slice(state.t, state.t + 5)
        state, _ = learner.learn(state, X[rows], y[rows])
        onkel.save((learner, state), path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that begin where this one is")
@pytest.mark.parametrize("kills", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_killed_at_any_moment_a_job_goes_on_as_if_nothing_had_been(tmp_path, kills):
    X, y = data(600)
    learner, path = LEARNERS["project"], tmp_path / "m.onkel"
    straight, _ = learner.learn(learner.init(), X, y)  # compiles, for all processes
    wait, died = random.Random(kills), 0
    for _ in range(3000):
        child = os.fork()
        if child == 0:
            try:
                learn_and_save(path, learner, X, y)
            finally:
                os._exit(0)
        if died < kills:
            time.sleep(wait.uniform(0.0, 0.03))
            os.kill(child, signal.SIGKILL)
        died += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        assert set(os.listdir(tmp_path)) <= {"m.onkel", ".m.onkel.0.part"}
        if path.exists():
            state = onkel.load(path)[1]
            if state.t == len(X) and died < kills:
                path.unlink()  # once more from the start
            elif died >= kills and state.t == len(X):
                break
    assert died >= kills
    assert same((learner, state), (learner, straight))
    assert os.listdir(tmp_path) == ["m.onkel"]
