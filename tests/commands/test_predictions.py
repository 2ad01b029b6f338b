"""What was said of each row before it was learned: in every format, by `onkel run` and `onkel predict`, and on a page."""

import csv
import io
import json
import sys

import numpy as np
import pytest

import onkel
from onkel import cli, plots
from onkel.commands.answers import answers, frame_values
from tests.commands.support import QUICK, as_csv, lines, onkel_run, stream


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_classes_row_by_row(folder, capsys):
    """The answers are those of a model that has learned the rows before; telling them changes neither model nor error."""
    X, y = stream(1300)
    as_csv(folder / "a.csv", X, y)
    assert onkel_run("a.csv", "--target", "label", *QUICK, "--no-scale", "--predictions", "p.csv", "--keep", "x1,label") == 0
    assert onkel_run("a.csv", "--target", "label", *QUICK, "--no-scale", "--out", "b") == 0
    told = table((folder / "p.csv").read_text())
    assert list(told[0]) == ["row", "prediction", "probability", "score", "x1", "label"]
    assert [int(row["row"]) for row in told] == list(range(1, 1301))
    assert [row["label"] for row in told] == y.tolist()
    a, b = onkel.load("a.onkel"), onkel.load("b.onkel")
    assert np.array_equal(a.model.state_.coef, b.model.state_.coef)
    wrong = sum(row["prediction"] != row["label"] for row in told[1:])  # of the first row nothing can be said
    assert wrong == round(1300 * a.report()["error"])
    assert told[0]["prediction"] == ""
    model = onkel.KernelClassifier(**b.model.get_params()).partial_fit(X[:1100], y[:1100])
    shares = model.predict_proba(X[1100:1101])[0]
    assert float(told[1100]["probability"]) == pytest.approx(shares.max(), rel=1e-9)
    curve = json.loads((folder / "a.json").read_text())["curve"]
    assert 0.5 < np.mean(curve["claimed"]) <= 1
    assert json.loads((folder / "b.json").read_text())["curve"]["claimed"][0] is None


def test_numbers_with_intervals_and_alerts(folder):
    X, _ = stream(1500)
    rng = np.random.default_rng(0)
    as_csv(folder / "a.csv", X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=len(X)))
    assert onkel_run("a.csv", "--target", "label", *QUICK, "--predictions", "p.ndjson", "--keep", "label") == 0
    told = [json.loads(line) for line in (folder / "p.ndjson").read_text().splitlines()]
    assert list(told[0]) == ["row", "prediction", "lower", "upper", "score", "label"]
    inside = [row["lower"] <= float(row["label"]) <= row["upper"] for row in told[500:]]
    assert 0.85 < np.mean(inside) < 0.95
    odd = X.copy()
    odd[1200] = 9.0
    as_csv(folder / "b.csv", odd, np.zeros(len(X)))
    assert onkel_run("b.csv", "--drop", "label", "--model", "silk", "--predictions", "q.csv") == 0
    told = table((folder / "q.csv").read_text())
    assert list(told[0]) == ["row", "alert", "score"]
    assert {row["alert"] for row in told} == {"0", "1"}
    assert 0.02 < np.mean([int(row["alert"]) for row in told[200:]]) < 0.09


def test_parquet_and_the_same_from_predict(folder):
    import pandas as pd

    as_csv(folder / "a.csv", *stream(1200))
    as_csv(folder / "new.csv", *stream(300, seed=1))
    assert onkel_run("a.csv", "--target", "label", *QUICK, "--predictions", "p.parquet") == 0
    assert list(pd.read_parquet("p.parquet").columns) == ["row", "prediction", "probability", "score"]
    before = (folder / "a.onkel").read_bytes()
    for name in ("said.csv", "said.parquet", "said.ndjson"):
        assert cli.main(["predict", "a.onkel", "new.csv", "--predictions", name, "--keep", "x0"]) == 0
    assert (folder / "a.onkel").read_bytes() == before
    frame = pd.read_csv("said.csv")
    assert frame["prediction"].tolist() == pd.read_parquet("said.parquet")["prediction"].tolist()
    assert frame["prediction"].tolist() == onkel.load("a.onkel").predict(pd.read_csv("new.csv")).tolist()
    assert frame["x0"].tolist() == pd.read_csv("new.csv")["x0"].tolist()


def test_predict_on_standard_output(folder, capfdbinary, monkeypatch):
    as_csv(folder / "a.csv", *stream(300))
    assert onkel_run("a.csv", "--target", "label", *QUICK, "--quiet") == 0
    text = lines(*stream(5))
    text.insert(3, "oops,1,2,up")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(text).encode())))
    assert cli.main(["predict", "a.onkel", "-", "--on-error", "skip", "--quiet"]) == 0
    told = table(capfdbinary.readouterr().out.decode())
    assert [row["row"] for row in told] == ["1", "2", "4", "5", "6"]


def test_the_summary_as_json_and_the_worst_alerts(folder, capsys):
    X, _ = stream(800)
    X[700] = 40.0
    as_csv(folder / "a.csv", X, np.zeros(len(X)))
    assert onkel_run("a.csv", "--drop", "label", "--model", "silk", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert 701 in [alert["row"] for alert in told["worst_alerts"]]
    assert 0.02 < told["alerts"] < 0.09
    scores = [alert["score"] for alert in told["worst_alerts"]]
    assert scores == sorted(scores)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--predictions", "p.xls"], "ends in .csv"),
        (["--predictions", "no/p.csv"], "no folder"),
        (["--keep", "x0"], "--predictions FILE, too"),
        (["--predictions", "-", "--json"], "both want standard output"),
        (["--out", "folder"], "that is a folder"),
        (["--out", "kept"], "that is a folder"),
        (["--report", "folder"], "that is a folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_written_is_told_before_the_work(folder, capsys, monkeypatch, arguments, message):
    as_csv(folder / "a.csv", *stream(50))
    (folder / "folder").mkdir()
    (folder / "kept.onkel").mkdir()
    monkeypatch.setattr("onkel.commands.run._learn", lambda *_: pytest.fail("the work had begun"))
    assert onkel_run("a.csv", "--target", "label", *arguments) == 2
    assert message in capsys.readouterr().err


def test_the_page_holds_all_of_it_and_nothing_of_others(folder):
    text = lines(*stream(600))
    text[0] = "<script>alert(1)</script>,x1,x2,label"
    (folder / "a.csv").write_text("\n".join(text))
    assert onkel_run("a.csv", "--target", "label", *QUICK, "--report", "run.html") == 0
    page = (folder / "run.html").read_text()
    assert "&lt;script&gt;alert(1)" in page
    assert "most frequent" in page
    assert page.count("data:image/png;base64,") == 2
    for outside in ("http://", "https://", "<script", "<link"):
        assert outside not in page


def test_plots_of_a_run_a_model_and_traces(folder):
    X, y = stream(700)
    as_csv(folder / "a.csv", X, y)
    assert onkel_run("a.csv", "--target", "label", *QUICK) == 0
    titles = [axes.get_title(loc="left") for axes in plots.run(onkel.load("a.onkel")).axes]
    assert titles == ["Mistakes, rows of 100 together", "Points kept", "Step size"]
    model = onkel.KernelClassifier(budget=16)
    traces = [model.partial_fit(X[i : i + 100], y[i : i + 100]).trace_ for i in range(0, 700, 100)]
    joined = plots.run(traces).axes[1].get_lines()[0].get_data()
    whole = plots.run(onkel.KernelClassifier(budget=16).partial_fit(X, y)).axes[1].get_lines()[0].get_data()
    np.testing.assert_array_equal(joined, whole)
    with pytest.raises(TypeError, match="a trace or several; got int"):
        plots.run(3)


def test_rows_of_every_library(folder):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    X, _ = stream(20)
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    names = ["x2", "x0"]
    for made in (frame, pl.from_pandas(frame), pl.from_pandas(frame).lazy(), pa.Table.from_pandas(frame)):
        np.testing.assert_array_equal(frame_values(made, names), X[:, [2, 0]])
    frame["when"] = pd.to_datetime(["1970-01-02"] * 20)
    frame["yes"] = [True, None] * 10
    np.testing.assert_array_equal(frame_values(frame, ["when", "yes"])[:2], [[86400.0, 1.0], [86400.0, np.nan]])
    with pytest.raises(ValueError, match="no column 'x9'"):
        frame_values(frame, ["x9"])
    with pytest.raises(ValueError, match="'a', which is not a number"):
        frame_values(frame.assign(x0="a"), ["x0"])


def test_nothing_learned_means_nothing_said():
    assert answers("classes", onkel.KernelClassifier(), np.zeros((2, 3))).column("prediction") == [None, None]
