"""Tables from a corpus of bad ones: told in a line, in bounded time and memory, and nothing of them acts on the terminal."""

import resource
import time

import pytest

import onkel
from onkel import cli
from tests.attack.corpus import tables

CORPUS = dict(tables())


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory):
    """Compiling is no part of the cost of a bad table."""
    folder = tmp_path_factory.mktemp("warm")
    (folder / "a.csv").write_text("x,z,y\n1,2,a\n2,1,b\n" * 1 + "3,1,a\n" * 200)
    for words in (("--target", "y"), ("--target", "x", "--task", "reals", "--drop", "y"), ("--drop", "y")):
        assert cli.main(["run", str(folder / "a.csv"), *words, "--no-figure", "--budget", "8", "-o", str(folder / "m"), "-q"]) == 0


@pytest.mark.parametrize("mode", [pytest.param("stop", marks=pytest.mark.slow), "skip"])
@pytest.mark.parametrize("name", CORPUS)
def test_a_bad_table_is_told_and_costs_little(tmp_path, monkeypatch, capsys, name, mode):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(CORPUS[name])
    memory, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    status = cli.main(
        ["run", name, "--target", "y", "--no-figure", "--budget", "8", "--on-error", mode, "-o", "m", "--max-classes", "40"]
    )
    spent = time.process_time() - begun
    told = capsys.readouterr()
    assert status in (0, 1)
    assert spent < 20, f"{spent:.1f} s"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 256_000  # kB
    assert "Traceback" not in told.err
    assert all(c.isprintable() or c == "\n" for c in told.out + told.err)
    assert status == 0 or told.err.startswith("onkel run: ")
    if (tmp_path / "m.onkel").exists():
        run = onkel.load("m.onkel")
        assert run.tally.rows > 0
        assert cli.main(["info", "m.onkel"]) == 0
        assert all(c.isprintable() or c == "\n" for c in capsys.readouterr().out)


def test_a_file_called_like_an_escape_is_shown_as_text(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    name = "a\x1b[2J\u202e$(rm x).csv"
    (tmp_path / name).write_bytes(CORPUS["escape-name-0.csv"])
    assert cli.main(["run", name, "--target", "y", "--no-figure"]) == 1
    assert cli.main(["info", name]) == 1
    told = capsys.readouterr()
    assert all(c.isprintable() or c == "\n" for c in told.out + told.err)
    assert "--resume $'" in told.err or "--drop $'" in told.err
