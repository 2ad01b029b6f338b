"""`onkel run`: every format, task and model; bad rows; what does not fit is told."""

import gzip
import json
import sys

import numpy as np
import pytest

import onkel
from onkel import cli, persist
from onkel.commands.scorecard import MODELS, Scale, Tally, guess_task
from tests.commands.support import QUICK, as_csv, lines, onkel_run, stream

# --- formats: one stream, one model -----------------------------------------------------------------------------------------------


def test_every_format_gives_the_same_model(folder, monkeypatch, capsys):
    import io

    import pandas as pd

    X, y = stream(1500)
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(label=y)
    plain = as_csv(folder / "a.csv", X, y)
    (folder / "b.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    (folder / "c.csv").write_bytes(b"\xef\xbb\xbf" + plain.read_bytes().replace(b",", b";").replace(b"\n", b"\r\n"))
    (folder / "d.tsv").write_bytes(plain.read_bytes().replace(b",", b"\t"))
    (folder / "e.ndjson").write_text("\n".join(json.dumps(row) for row in frame.to_dict("records")))
    frame.to_parquet(folder / "f.parquet")
    for name in ("a.csv", "b.csv.gz", "c.csv", "d.tsv", "e.ndjson", "f.parquet"):
        assert onkel_run(name, "--target", "label", *QUICK, "--out", name[0]) == 0
    for name in ("a.csv", "e.ndjson"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((folder / name).read_bytes())))
        assert onkel_run("-", "--target", "label", *QUICK, "--out", f"piped-{name[0]}") == 0
    models = [onkel.load(path) for path in sorted(folder.glob("*.onkel"))]
    assert len(models) == 8
    for run in models:
        run.source = {}
    assert len({persist.dumps(run) for run in models}) == 1
    reports = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    assert len({report["error"] for report in reports}) == 1
    assert reports[0]["rows"] == 1500
    assert reports[0]["error"] < 0.25 < reports[0]["error_of_last_label"]
    said = capsys.readouterr().err.splitlines()
    assert all(" rows, " in line for line in said)  # nothing but progress, where the machine is slow


def test_a_csv_without_header(folder, capsys):
    X, y = stream(300)
    (folder / "a.csv").write_text("\n".join(lines(X, np.where(y == "up", 1, 0), header=False)))
    assert onkel_run("a.csv", "--target", "3") == 1
    assert "--no-header" in capsys.readouterr().err
    assert onkel_run("a.csv", "--no-header", "--target", "3", *QUICK) == 0
    assert onkel.load("a.onkel").features == ["0", "1", "2"]


# --- tasks and models -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_every_model(folder, model):
    as_csv(folder / "a.csv", *stream(600))
    assert onkel_run("a.csv", "--target", "label", "--model", model, *(() if model == "ilk" else QUICK)) == 0
    report = json.loads((folder / "a.json").read_text())
    assert report["error"] < 0.35
    assert report["points"] <= 16 or model == "ilk"


def test_reals_and_novelty(folder):
    X, _ = stream(900)
    as_csv(folder / "a.csv", X, np.sin(X[:, 0]) + 0.1 * X[:, 1])
    assert onkel_run("a.csv", "--target", "label", *QUICK) == 0
    report = json.loads((folder / "a.json").read_text())
    assert report["task"] == "reals"
    assert (
        report["mean_absolute_error"] < report["mean_absolute_error_of_running_mean"] < report["mean_absolute_error_of_last_value"]
    )
    assert onkel_run("a.csv", "--drop", "label", *QUICK) == 0
    report = json.loads((folder / "a.json").read_text())
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


def test_the_loaded_run_predicts_raw_rows(folder):
    import pandas as pd

    X, y = stream(1200)
    X = X * [1.0, 1000.0, 0.001] + [0.0, 1e6, 5.0]
    as_csv(folder / "a.csv", X, y)
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
def test_a_bad_row_is_named(folder, capsys, kind):
    row, message = BAD[kind]
    text = lines(*stream(200))
    (folder / "a.csv").write_text("\n".join([*text[:11], row, *text[11:]]))
    assert onkel_run("a.csv", "--target", "label", *QUICK) == 1
    assert message in capsys.readouterr().err
    assert onkel.load("a.onkel").tally.rows == 10
    assert json.loads((folder / "a.json").read_text())["complete"] is False
    (folder / "a.csv").write_text("\n".join(text))  # mended
    assert onkel_run("a.csv", "--resume", "a.onkel") == 0
    assert onkel.load("a.onkel").tally.rows == 200


@pytest.mark.parametrize("kind", BAD)
def test_bad_rows_are_skipped_when_asked(folder, kind):
    row, message = BAD[kind]
    text = lines(*stream(200))
    (folder / "a.csv").write_text("\n".join([*text[:11], row, *text[11:]]))
    assert onkel_run("a.csv", "--target", "label", "--on-error", "skip", *QUICK) == 0
    report = json.loads((folder / "a.json").read_text())
    assert (report["rows"], report["bad_rows"]) == (200, 1)
    assert message in report["bad"][0]
    as_csv(folder / "b.csv", *stream(200))
    assert onkel_run("b.csv", "--target", "label", *QUICK) == 0
    assert np.array_equal(onkel.load("a.onkel").model.state_.coef, onkel.load("b.onkel").model.state_.coef)


def test_lines_are_counted_through_quoted_newlines_and_blank_ones(folder, capsys):
    (folder / "a.csv").write_text('\n\nx,"na\nme",label\n1,2,a\n\n"3\n",4,b\n5,6,a\n7,oops,b\n')
    assert onkel_run("a.csv", "--target", "label") == 1
    assert "line 10, column 'na\\nme': 'oops'" in capsys.readouterr().err


def test_text_that_is_not_utf8(folder, capsys):
    text = "\n".join(lines(*stream(50))).encode()
    (folder / "a.csv").write_bytes(text + "\n1,2,3,größe\n".encode("latin-1"))
    assert onkel_run("a.csv", "--target", "label") == 1
    assert "line 52: not utf-8 text" in capsys.readouterr().err
    assert onkel_run("a.csv", "--target", "label", "--encoding", "latin-1") == 0
    assert "größe" in onkel.load("a.onkel").model.classes_


def test_bad_ndjson(folder, capsys):
    good = [json.dumps({"x": i, "y": bool(i % 2), "more": None}) for i in range(30)]
    for bad, message in (
        ("{oops", "line 11: not JSON"),
        ("[1]", "line 11: not a JSON object"),
        ('{"x": [1], "y": true}', "line 11, column 'x': '[1]' is not a number"),
        ('{"y": true}', "line 11, column 'x': the value is missing"),
        ('{"x": 1e999, "y": true}', "line 11, column 'x': inf is not a finite"),
    ):
        (folder / "a.ndjson").write_text("\n".join([*good[:10], bad, *good[10:]]))
        assert onkel_run("a.ndjson", "--target", "y", "--drop", "more") == 1
        assert message in capsys.readouterr().err
    (folder / "a.ndjson").write_text("\n".join(good))
    assert onkel_run("a.ndjson", "--target", "y", "--drop", "more") == 0
    assert list(onkel.load("a.onkel").model.classes_) == ["false", "true"]


def test_missing_values_can_be_left_out(folder):
    X, y = stream(300)
    text = lines(X, y)
    text[5::7] = [line.replace(line.split(",")[1], "NA") for line in text[5::7]]
    (folder / "a.csv").write_text("\n".join(text))
    assert onkel_run("a.csv", "--target", "label", *QUICK) == 1
    assert onkel_run("a.csv", "--target", "label", "--missing", "ignore", *QUICK) == 0
    assert json.loads((folder / "a.json").read_text())["rows"] == 300


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
        (["a.what"], 1, "--format csv|ndjson|json|parquet|feather|svmlight|vw"),
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
def test_what_does_not_fit_is_told(folder, capsys, arguments, status, message):
    as_csv(folder / "a.csv", *stream(50))
    as_csv(folder / "a.what", *stream(50))
    (folder / "empty.csv").touch()
    (folder / "header.csv").write_text("x,label\n")
    (folder / "twice.csv").write_text("a,a\n1,2\n")
    (folder / "broken.csv.gz").write_bytes(b"no gzip")
    learner = onkel.silk(onkel.RBF(), onkel.Hinge())
    onkel.save((learner, learner.init()), folder / "learner.onkel")
    assert onkel_run(*arguments) == status
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("onkel run: ")
    assert "Traceback" not in error


@pytest.mark.parametrize(
    "arguments",
    [
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
    try:
        status = cli.main(arguments)
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    assert "usage: onkel" in capsys.readouterr().err


def test_a_line_without_end_does_not_fill_the_memory(folder, capsys):
    (folder / "a.csv").write_text("x,label\n1,a\n" + "1" * 5000)
    assert onkel_run("a.csv", "--target", "label", "--max-line", "1000") == 1
    assert "line 3 is longer" in capsys.readouterr().err
