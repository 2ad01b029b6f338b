"""The command line: every door of `onkel run`, its errors, its exit codes; the same model after an interruption."""

import gzip
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import onkel
from onkel import cli, persist
from onkel.commands import completion
from onkel.commands.scorecard import MODELS, Run, Scale, Tally, guess_task, start
from onkel.commands.tables import BLOCK

ROOT = Path(__file__).resolve().parents[2]


def stream(n, seed=0, d=3):
    """Rows of numbers with a class that drifts."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).round(6)
    turn = np.linspace(0, 3, n)
    return X, np.where(X[:, 0] * np.cos(turn) + X[:, 1] * np.sin(turn) > 0, "up", "down")


def lines(X, y, header=True):
    names = [",".join([*(f"x{i}" for i in range(X.shape[1])), "label"])] if header else []
    return [*names, *(",".join([*map(repr, row), str(label)]) for row, label in zip(X.tolist(), y))]


def as_csv(path, X, y):
    path.write_text("\n".join(lines(X, y)) + "\n")
    return path


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def onkel_run(*arguments):
    return cli.main(["run", *map(str, arguments), "--no-figure"])


QUICK = ("--budget", "16")


# --- formats: one stream, one model -----------------------------------------------------------------------------------------------


def test_every_format_gives_the_same_model(here, monkeypatch, capsys):
    import io

    import pandas as pd

    X, y = stream(1500)
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(label=y)
    plain = as_csv(here / "a.csv", X, y)
    (here / "b.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    (here / "c.csv").write_bytes(b"\xef\xbb\xbf" + plain.read_bytes().replace(b",", b";").replace(b"\n", b"\r\n"))
    (here / "d.tsv").write_bytes(plain.read_bytes().replace(b",", b"\t"))
    (here / "e.ndjson").write_text("\n".join(json.dumps(row) for row in frame.to_dict("records")))
    frame.to_parquet(here / "f.parquet")
    for name in ("a.csv", "b.csv.gz", "c.csv", "d.tsv", "e.ndjson", "f.parquet"):
        assert onkel_run(name, "--target", "label", *QUICK, "--out", name[0]) == 0
    for name in ("a.csv", "e.ndjson"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((here / name).read_bytes())))
        assert onkel_run("-", "--target", "label", *QUICK, "--out", f"piped-{name[0]}") == 0
    models = [onkel.load(path) for path in sorted(here.glob("*.onkel"))]
    assert len(models) == 8
    for run in models:
        run.source = {}
    assert len({persist.dumps(run) for run in models}) == 1
    reports = [json.loads(path.read_text()) for path in sorted(here.glob("*.json"))]
    assert len({report["error"] for report in reports}) == 1
    assert reports[0]["rows"] == 1500
    assert reports[0]["error"] < 0.25 < reports[0]["error_of_last_label"]
    assert capsys.readouterr().err == ""


def test_a_csv_without_header(here, capsys):
    X, y = stream(300)
    (here / "a.csv").write_text("\n".join(lines(X, np.where(y == "up", 1, 0), header=False)))
    assert onkel_run("a.csv", "--target", "3") == 1
    assert "--no-header" in capsys.readouterr().err
    assert onkel_run("a.csv", "--no-header", "--target", "3", *QUICK) == 0
    assert onkel.load("a.onkel").features == ["0", "1", "2"]


# --- tasks and models -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_every_model(here, model):
    as_csv(here / "a.csv", *stream(600))
    assert onkel_run("a.csv", "--target", "label", "--model", model, *(() if model == "ilk" else QUICK)) == 0
    report = json.loads((here / "a.json").read_text())
    assert report["error"] < 0.35
    assert report["points"] <= 16 or model == "ilk"


def test_reals_and_novelty(here):
    X, _ = stream(900)
    as_csv(here / "a.csv", X, np.sin(X[:, 0]) + 0.1 * X[:, 1])
    assert onkel_run("a.csv", "--target", "label", *QUICK) == 0
    report = json.loads((here / "a.json").read_text())
    assert report["task"] == "reals"
    assert (
        report["mean_absolute_error"] < report["mean_absolute_error_of_running_mean"] < report["mean_absolute_error_of_last_value"]
    )
    assert onkel_run("a.csv", "--drop", "label", *QUICK) == 0
    report = json.loads((here / "a.json").read_text())
    assert report["task"] == "novelty"
    assert 0 < report["alerts"] < 0.5


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b"], "classes"),
        ([1, 0, 1], "classes"),
        (["1", "2.0"], "classes"),
        (["0.5"], "reals"),
        (list(range(30)), "reals"),
        ([True], "classes"),
    ],
)
def test_the_task_is_guessed(values, task):
    assert guess_task("y", values) == task


def test_the_loaded_run_predicts_raw_rows(here):
    import pandas as pd

    X, y = stream(1200)
    X = X * [1.0, 1000.0, 0.001] + [0.0, 1e6, 5.0]
    as_csv(here / "a.csv", X, y)
    assert onkel_run("a.csv", "--target", "label", *QUICK) == 0
    run = onkel.load("a.onkel")
    before = persist.dumps(run)
    assert (run.predict(X[-200:]) == y[-200:]).mean() > 0.8
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(more=1.0)
    assert (run.predict(frame[["more", "x2", "x1", "x0"]]) == run.predict(X)).all()
    assert persist.dumps(run) == before


def test_scaling_does_not_depend_on_how_the_stream_is_cut():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4)) * [1, 1e9, 1e-9, 0] + [0, 1e9, 0, 7.7]
    X[rng.random(X.shape) < 0.1] = np.nan
    whole = Scale(4).scaled(X)
    for size in (1, 7, 499):
        scale = Scale(4)
        assert np.array_equal(np.concatenate([scale.scaled(X[i : i + size]) for i in range(0, 500, size)]), whole, equal_nan=True)
    assert np.array_equal(np.isnan(whole), np.isnan(X))
    assert np.nanmax(np.abs(whole)) < 20
    assert not np.nan_to_num(whole[:, 3]).any()
    np.testing.assert_allclose(whole[-1, :3], ((X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0))[-1, :3], rtol=1e-6)


def test_the_curve_has_bounded_length_and_forgets_nothing():
    tally, rng = Tally(), np.random.default_rng(0)
    errors = rng.random((100_000, 3))
    for start_row in range(0, 100_000, 777):
        tally.add(errors[start_row : start_row + 777])
    rows, curve = tally.windows()
    assert len(rows) <= 256
    assert rows[-1] == 100_000
    np.testing.assert_allclose(tally.means(), errors.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(curve[0], errors[: tally.width].mean(axis=0))


# --- bad rows ---------------------------------------------------------------------------------------------------------------------

BAD = {
    "text": ("1.0,oops,2.0,up", "line 12, column 'x1': 'oops' is not a number"),
    "gap": ("1.0,,2.0,up", "line 12, column 'x1': the value is missing"),
    "infinite": ("1.0,inf,2.0,up", "line 12, column 'x1': inf is not a finite number"),
    "huge": ("1.0,1e200,2.0,up", "line 12, column 'x1': 1e200 is not a finite number"),
    "short": ("1.0,2.0", "line 12: 2 fields, but there are 4 columns"),
    "long": ("1,2,3,up,5", "line 12: 5 fields, but there are 4 columns"),
    "no target": ("1.0,2.0,3.0,", "line 12, column 'label': the target is missing"),
    "quote": ('1.0,"2.0"x,3.0,up', "line 12: ',' expected after '\"'"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_row_is_named(here, capsys, kind):
    row, message = BAD[kind]
    text = lines(*stream(200))
    (here / "a.csv").write_text("\n".join([*text[:11], row, *text[11:]]))
    assert onkel_run("a.csv", "--target", "label", *QUICK) == 1
    assert message in capsys.readouterr().err
    assert onkel.load("a.onkel").tally.rows == 10
    assert json.loads((here / "a.json").read_text())["complete"] is False
    (here / "a.csv").write_text("\n".join(text))  # mended
    assert onkel_run("a.csv", "--resume", "a.onkel") == 0
    assert onkel.load("a.onkel").tally.rows == 200


@pytest.mark.parametrize("kind", BAD)
def test_bad_rows_are_skipped_when_asked(here, kind):
    row, message = BAD[kind]
    text = lines(*stream(200))
    (here / "a.csv").write_text("\n".join([*text[:11], row, *text[11:]]))
    assert onkel_run("a.csv", "--target", "label", "--on-error", "skip", *QUICK) == 0
    report = json.loads((here / "a.json").read_text())
    assert (report["rows"], report["bad_rows"]) == (200, 1)
    assert message in report["bad"][0]
    as_csv(here / "b.csv", *stream(200))
    assert onkel_run("b.csv", "--target", "label", *QUICK) == 0
    assert np.array_equal(onkel.load("a.onkel").model.state_.coef, onkel.load("b.onkel").model.state_.coef)


def test_lines_are_counted_through_quoted_newlines_and_blank_ones(here, capsys):
    (here / "a.csv").write_text('\n\nx,"na\nme",label\n1,2,a\n\n"3\n",4,b\n5,6,a\n7,oops,b\n')
    assert onkel_run("a.csv", "--target", "label") == 1
    assert "line 10, column 'na\\nme': 'oops'" in capsys.readouterr().err


def test_text_that_is_not_utf8(here, capsys):
    text = "\n".join(lines(*stream(50))).encode()
    (here / "a.csv").write_bytes(text + "\n1,2,3,größe\n".encode("latin-1"))
    assert onkel_run("a.csv", "--target", "label") == 1
    assert "line 52: not utf-8 text" in capsys.readouterr().err
    assert onkel_run("a.csv", "--target", "label", "--encoding", "latin-1") == 0
    assert "größe" in onkel.load("a.onkel").model.classes_


def test_bad_ndjson(here, capsys):
    good = [json.dumps({"x": i, "y": bool(i % 2), "more": None}) for i in range(30)]
    for bad, message in (
        ("{oops", "line 11: not JSON"),
        ("[1]", "line 11: not a JSON object"),
        ('{"x": [1], "y": true}', "line 11, column 'x': '[1]' is not a number"),
        ('{"y": true}', "line 11, column 'x': the value is missing"),
        ('{"x": 1e999, "y": true}', "line 11, column 'x': inf is not a finite"),
    ):
        (here / "a.ndjson").write_text("\n".join([*good[:10], bad, *good[10:]]))
        assert onkel_run("a.ndjson", "--target", "y", "--drop", "more") == 1
        assert message in capsys.readouterr().err
    (here / "a.ndjson").write_text("\n".join(good))
    assert onkel_run("a.ndjson", "--target", "y", "--drop", "more") == 0
    assert list(onkel.load("a.onkel").model.classes_) == ["false", "true"]


def test_missing_values_can_be_left_out(here):
    X, y = stream(300)
    text = lines(X, y)
    text[5::7] = [line.replace(line.split(",")[1], "NA") for line in text[5::7]]
    (here / "a.csv").write_text("\n".join(text))
    assert onkel_run("a.csv", "--target", "label", *QUICK) == 1
    assert onkel_run("a.csv", "--target", "label", "--missing", "ignore", *QUICK) == 0
    assert json.loads((here / "a.json").read_text())["rows"] == 300


# --- wrong use --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["absent.csv"], 1, "onkel run: absent.csv: No such file"),
        (["a.csv", "--target", "nothing"], 1, "no column 'nothing'; it has x0, x1, x2, label"),
        (["a.csv"], 1, "no numbers in label; leave such columns out: --drop label"),
        (["a.csv", "--target", "label", "--features", "label"], 2, "nothing to learn from"),
        (["a.csv", "--target", "label", "--task", "novelty"], 2, "needs no --target"),
        (["a.csv", "--drop", "label", "--task", "reals"], 2, "needs a --target"),
        (["a.csv", "--target", "label", "--loss", "huber"], 2, "loss must be"),
        (["a.csv", "--target", "x0", "--drop", "label", "--model", "perceptron"], 2, "separates classes"),
        (["a.csv", "--drop", "label", "--model", "pa"], 2, "needs a target"),
        (["a.csv", "--target", "label", "--nu", "0.5"], 2, "nu"),
        (["a.csv", "--target", "label", "--model", "norma", "--eta", "100", "--lam", "1"], 2, "eta * lam"),
        (["a.csv", "--target", "label", "--resume", "absent.onkel"], 2, "--target: a resumed run keeps"),
        (["a.csv", "--resume", "absent.onkel"], 1, "absent.onkel"),
        (["a.csv", "--resume", "a.csv"], 1, "not a model file"),
        (["a.csv", "--resume", "learner.onkel"], 1, "not a run on a table"),
        (["a.what"], 1, "--format csv|ndjson|parquet"),
        (["empty.csv"], 1, "empty"),
        (["header.csv", "--target", "label"], 1, "no row could be learned"),
        (["twice.csv", "--target", "a"], 1, "two columns are called 'a'"),
        (["broken.csv.gz", "--target", "label"], 1, "cannot be read beyond line 0"),
        (["a.csv", "--target", "label", "--format", "parquet"], 1, "not a Parquet file"),
        (["a.csv", "--target", "label", "--format", "ndjson"], 1, "no line is a JSON object"),
        (["-", "--format", "parquet"], 1, "standard input"),
        (["a.csv", "--target", "label", "--out", "no/where"], 2, "is no folder that can be written to"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_does_not_fit_is_told(here, capsys, arguments, status, message):
    as_csv(here / "a.csv", *stream(50))
    as_csv(here / "a.what", *stream(50))
    (here / "empty.csv").touch()
    (here / "header.csv").write_text("x,label\n")
    (here / "twice.csv").write_text("a,a\n1,2\n")
    (here / "broken.csv.gz").write_bytes(b"no gzip")
    learner = onkel.silk(onkel.RBF(), onkel.Hinge())
    onkel.save((learner, learner.init()), here / "learner.onkel")
    assert onkel_run(*arguments) == status
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("onkel run: ")
    assert "Traceback" not in error


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["run"],
        ["run", "a.csv", "--model", "svm"],
        ["run", "a.csv", "--budget", "0"],
        ["run", "a.csv", "--budget", "x"],
        ["run", "a.csv", "--eta", "-1"],
        ["run", "a.csv", "--eta", "nan"],
        ["run", "a.csv", "--gamma", "wide"],
        ["run", "a.csv", "--delimiter", "ab"],
        ["run", "a.csv", "--encoding", "utf-16"],
        ["run", "a.csv", "--encoding", "klingon"],
        ["info"],
        ["completion", "csh"],
    ],
    ids=" ".join,
)
def test_wrong_arguments_exit_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert "usage: onkel" in capsys.readouterr().err


def test_a_line_without_end_does_not_fill_the_memory(here, capsys, monkeypatch):
    monkeypatch.setattr("onkel.commands.tables.LINE_LIMIT", 1000)
    (here / "a.csv").write_text("x,label\n1,a\n" + "1" * 5000)
    assert onkel_run("a.csv", "--target", "label") == 1
    assert "line 3 is longer" in capsys.readouterr().err


# --- interrupted and resumed ------------------------------------------------------------------------------------------------------


def test_interrupted_and_resumed_gives_the_same_file(here, capsys):
    """A signal between two blocks, and the rest later: bit for bit what one go gives."""
    as_csv(here / "a.csv", *stream(4 * BLOCK + 321))
    assert onkel_run("a.csv", "--target", "label", *QUICK, "--out", "straight") == 0
    learn, count = Run.learn, 0

    def interrupting(self, X, y):
        nonlocal count
        count += 1
        if count == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return learn(self, X, y)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "learn", interrupting)
        assert onkel_run("a.csv", "--target", "label", *QUICK) == 130
    assert f"interrupted after {2 * BLOCK} rows" in capsys.readouterr().err
    assert json.loads((here / "a.json").read_text())["complete"] is False
    assert onkel_run("a.csv", "--resume", "a.onkel") == 0
    assert (here / "a.onkel").read_bytes() == (here / "straight.onkel").read_bytes()
    straight, resumed = (json.loads((here / f"{name}.json").read_text()) for name in ("straight", "a"))
    for report in (straight, resumed):
        del report["seconds"], report["rows_per_second"]
    assert straight == resumed


@pytest.mark.parametrize("model", ["ilk", "svmd"])
def test_killed_and_resumed_from_the_last_save(here, model):
    """No chance to say goodbye: --save-every has left a whole file, and the run goes on from there."""
    as_csv(here / "a.csv", *stream(3 * BLOCK))
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
    assert (here / "a.onkel").read_bytes() == (here / "straight.onkel").read_bytes()


def test_another_file_goes_on_and_a_changed_one_is_refused(here, capsys):
    X, y = stream(2 * BLOCK)
    as_csv(here / "monday.csv", X[:BLOCK], y[:BLOCK])
    as_csv(here / "tuesday.csv", X[BLOCK:], y[BLOCK:])
    as_csv(here / "both.csv", X, y)
    assert onkel_run("both.csv", "--target", "label", *QUICK) == 0
    assert onkel_run("monday.csv", "--target", "label", *QUICK, "--out", "week") == 0
    assert onkel_run("tuesday.csv", "--resume", "week.onkel") == 0
    week, both = onkel.load("week.onkel"), onkel.load("both.onkel")
    assert week.tally.rows == 2 * BLOCK
    assert np.array_equal(week.model.state_.coef, both.model.state_.coef)
    as_csv(here / "tuesday.csv", X[5:BLOCK], y[5:BLOCK])
    assert onkel_run("tuesday.csv", "--resume", "week.onkel") == 1
    assert "does not begin as it did" in capsys.readouterr().err
    assert onkel_run("tuesday.csv", "--resume", "week.onkel", "--skip", "0") == 0


def test_a_file_that_has_grown_goes_on_where_it_ended(here):
    X, y = stream(2 * BLOCK)
    as_csv(here / "a.csv", X[:BLOCK], y[:BLOCK])
    assert onkel_run("a.csv", "--target", "label", *QUICK) == 0
    as_csv(here / "a.csv", X, y)
    assert onkel_run("a.csv", "--resume", "a.onkel") == 0
    as_csv(here / "b.csv", X, y)
    assert onkel_run("b.csv", "--target", "label", *QUICK) == 0
    assert np.array_equal(onkel.load("a.onkel").model.state_.coef, onkel.load("b.onkel").model.state_.coef)


def test_ctrl_c_while_waiting_for_input(here):
    """A pipe that stays open: what has come is learned, the signal ends the wait."""
    process = subprocess.Popen(
        [sys.executable, "-m", "onkel", "run", "-", "--target", "label", *QUICK, "--no-figure", "--out", "live"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        cwd=here,
    )
    process.stdin.write(("\n".join(lines(*stream(BLOCK))) + "\n").encode())
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not _sleeps(process.pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert onkel.load(here / "live.onkel").tally.rows == BLOCK


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


# --- manners ----------------------------------------------------------------------------------------------------------------------


def test_quiet_when_piped_and_lively_on_a_terminal(here):
    as_csv(here / "a.csv", *stream(3 * BLOCK))
    command = [sys.executable, "-m", "onkel", "run", "a.csv", "--target", "label", *QUICK, "--no-figure"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    piped = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert piped.returncode == 0
    assert piped.stderr == ""
    assert "error 0." in piped.stdout
    leader, follower = pty.openpty()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=follower, env=environment, check=True)
    shown = os.read(leader, 100_000).decode()
    os.close(leader)
    os.close(follower)
    assert "rows" in shown
    assert "error of the last 1000" in shown
    assert "%" in shown
    quiet = subprocess.run([*command, "--quiet"], capture_output=True, text=True, env=environment)
    assert (quiet.stdout, quiet.stderr) == ("", "")


def test_the_figure(here):
    as_csv(here / "a.csv", *stream(500))
    assert cli.main(["run", "a.csv", "--target", "label", *QUICK]) == 0
    assert (here / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_reader_that_leaves_early(here):
    learner = onkel.silk(onkel.RBF(), onkel.Hinge())
    onkel.save((learner, learner.init()), here / "m.onkel")
    result = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m onkel info m.onkel --json | head -c 1; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert result.stdout == "{"
    assert "Traceback" not in result.stderr


def test_help_is_fast_and_complete():
    """Nothing heavy is imported for it."""
    code = (
        "import sys; from onkel import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'numba', 'sklearn', 'matplotlib', 'cv2', 'river'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert shown.returncode == 0, shown.stderr
    for name, (module, _) in cli.COMMANDS.items():
        assert (f"\n    {name} " in shown.stdout or f"\n    {name}\n" in shown.stdout) == cli._exists(module)


@pytest.mark.parametrize("name", sorted(set(cli.COMMANDS) - {"demo"}))
def test_every_command_has_help(name, capsys):
    if not cli._exists(cli.COMMANDS[name][0]):
        pytest.skip(f"{cli.COMMANDS[name][0]} does not exist yet")
    with pytest.raises(SystemExit) as stop:
        cli.main([name, "--help"])
    assert stop.value.code == 0
    assert f"usage: onkel {name}" in capsys.readouterr().out


def test_run_help_has_examples_and_exit_codes(capsys):
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    shown = capsys.readouterr().out
    assert shown.count("onkel run ") >= 5
    assert "exit status" in shown


def test_version(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"onkel {onkel.__version__}\n"


def test_demo_is_handed_its_arguments(monkeypatch):
    called = []
    monkeypatch.setattr("onkel.commands.demo.main", lambda argv: called.append(argv) or 3)
    assert cli.main(["demo", "--trials", "2"]) == 3
    assert called == [["--trials", "2"]]


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
    assert sum(map(cli._bytes, persist.header(here / "m.onkel")["arrays"].values())) == sizes


# --- completion -------------------------------------------------------------------------------------------------------------------


def complete(script, *words):
    """What bash would offer for the last word."""
    ask = (
        f"compopt() {{ :; }}\nCOMP_WORDS=(onkel {' '.join(repr(word) for word in words)}); COMP_CWORD={len(words)}\n"
        "_onkel; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    result = subprocess.run(["bash", "-c", script + ask], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_bash_completes(capsys):
    assert cli.main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert complete(script, "r")[:1] == ["run"]
    assert complete(script, "run", "--mod") == ["--model"]
    assert complete(script, "run", "--model", "s") == ["silk", "svmd"]
    assert complete(script, "run", "--on-error", "") == ["stop", "skip"]
    assert complete(script, "completion", "f") == ["fish"]
    assert complete(script, "run", "--target", "x") == []


def test_every_shell_knows_every_option():
    tree = completion.commands(cli.parser(everything=True))
    for shell in (completion.bash, completion.zsh, completion.fish):
        script = shell(tree)
        for name, (_, options) in tree.items():
            assert name in script
            for option in options:
                assert option.lstrip("-") in script


@pytest.mark.parametrize(("shell", "check"), [("zsh", ["zsh", "-n"]), ("fish", ["fish", "-n"]), ("bash", ["bash", "-n"])])
def test_scripts_parse(here, capsys, shell, check):
    import shutil

    if not shutil.which(check[0]):
        pytest.skip(f"{shell} is not installed")
    assert cli.main(["completion", shell]) == 0
    (here / "script").write_text(capsys.readouterr().out)
    assert subprocess.run([*check, "script"]).returncode == 0


def test_start_refuses_unknown_models():
    with pytest.raises(ValueError, match="model must be one of silk"):
        start("classes", ["x"], "y", model="svm")
