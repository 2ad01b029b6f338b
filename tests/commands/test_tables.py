"""Tables as they come: dates, booleans, decimal commas, arrays, columns; and what a hostile one may not do."""

import gzip
import json
import time
from contextlib import closing

import numpy as np
import pytest

import onkel
from onkel import cli
from onkel.commands.rows import BLOCK, BadTable, Limits, Marked
from onkel.commands.tables import Reader, Table
from tests.commands.support import QUICK, as_csv, lines, onkel_run, stream


def read(path, target=None, **options):
    """All blocks of a table, joined."""
    with closing(Table(str(path), limits=options.pop("limits", None))) as table:
        features = [name for name in table.columns if name != target]
        reader = Reader(table, features, target, **options)
        blocks = list(reader.read(iter(table)))
    return (
        np.concatenate([block.X for block in blocks]),
        [goal for block in blocks for goal in block.y],
        [row for block in blocks for row in block.rows],
        [str(error) for block in blocks for error in block.bad],
    )


def test_booleans_dates_and_times_are_numbers(folder):
    (folder / "a.csv").write_text("yes,day,hour,label\nTrue,1970-01-02,00:01,a\nfalse,1970-01-01T00:00:05Z,12:00:01,b\n")
    X, y, rows, bad = read("a.csv", "label")
    assert X.tolist() == [[1.0, 86400.0, 60.0], [0.0, 5.0, 43201.0]]
    assert (y, rows, bad) == (["a", "b"], [1, 2], [])


def test_a_decimal_comma(folder):
    (folder / "a.csv").write_text("x;label\n" + "".join(f"{i},5;{'ab'[i % 2]}\n" for i in range(30)))
    assert onkel_run("a.csv", "--target", "label") == 1
    assert onkel_run("a.csv", "--target", "label", "--decimal", ",", *QUICK) == 0
    run = onkel.load("a.onkel")
    assert (run.decimal, run.scale.first[0]) == (",", 0.5)
    assert onkel_run("a.csv", "--resume", "a.onkel") == 0


def test_arrays_and_columns_give_what_lines_give(folder):
    import pandas as pd

    X, y = stream(2500)
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(yes=X[:, 0] > 0, n=np.arange(2500), label=y)
    frame.to_json("a.json", orient="records", double_precision=15)
    frame.to_parquet("a.parquet")
    frame.to_feather("a.feather")
    frame.to_csv("a.csv", index=False)
    frame.to_json("a.ndjson", orient="records", lines=True, double_precision=15)
    first = read("a.csv", "label")
    for name in ("a.json", "a.parquet", "a.feather", "a.ndjson"):
        X, y, rows, bad = read(name, "label")
        assert np.array_equal(X, first[0]), name
        assert (y, rows, bad) == first[1:], name


def test_gaps_and_text_in_columns_are_told_as_in_lines(folder):
    import pandas as pd

    frame = pd.DataFrame(
        {"x": [1.0, 2.0, None, 4.0, 1e300], "z": pd.array([1, None, 3, 4, 5], "Int64"), "y": ["a", "b", "a", None, "b"]}
    )
    frame.to_parquet("a.parquet")
    X, y, rows, bad = read("a.parquet", "y")
    assert (X.tolist(), y, rows) == ([[1.0, 1.0]], ["a"], [1])
    assert "row 3, column 'x': the value is missing" in bad
    assert "row 4, column 'y': the target is missing" in bad
    X, *_ = read("a.parquet", "y", gaps=True)
    assert np.isnan(X).sum() == 2


def test_parquet_goes_on_where_it_stopped(folder):
    import pandas as pd

    X, y = stream(2 * BLOCK + 77)
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(label=y)
    frame[: BLOCK + 10].to_parquet("a.parquet")
    assert onkel_run("a.parquet", "--target", "label", *QUICK) == 0
    frame.to_parquet("a.parquet")
    assert onkel_run("a.parquet", "--resume", "a.onkel") == 0
    assert onkel_run("a.parquet", "--target", "label", *QUICK, "--out", "b") == 0
    a, b = onkel.load("a.onkel"), onkel.load("b.onkel")
    assert a.tally.rows == b.tally.rows == 2 * BLOCK + 77
    assert np.array_equal(a.model.state_.coef, b.model.state_.coef)


def test_svmlight_text(folder, capsys):
    (folder / "a.svm").write_text(
        "# made\n" + "".join(f"{'+1' if i % 2 else '-1'} qid:3 {1 + i % 3}:0.5 7:{i % 2} # c\n" for i in range(300))
    )
    assert onkel_run("a.svm", *QUICK) == 0
    run = onkel.load("a.onkel")
    assert (run.task, run.target, run.features) == ("classes", "target", [str(k) for k in range(1, 8)])
    assert run.report()["error"] < 0.1
    (folder / "b.svm").write_text("+1 2:0.5\n-1 1:0.5\n")
    assert onkel_run("b.svm", "--resume", "a.onkel") == 0
    assert cli.main(["predict", "a.onkel", "b.svm", "--quiet"]) == 0
    for bad, message in (("+1 9:1", "feature 9 is new"), ("1 a:b", "not svmlight text"), ("1 20000:1", "--max-columns")):
        lines = ["+1 1:1 2:1"] * BLOCK
        (folder / "c.svm").write_text("\n".join([*lines, bad]))
        assert onkel_run("c.svm", *QUICK) == 1
        assert f"line {BLOCK + 1}" in (error := capsys.readouterr().err)
        assert message in error


def test_vowpal_wabbit_text(folder):
    """Names are hashed, importance counts: a row of importance 2 moves the model as scikit-learn's sample_weight does."""
    rows = [(i % 2, 1 + i % 2, f"|n {'up' if i % 2 else 'down'} price:{i % 5} |other x") for i in range(300)]
    (folder / "a.vw").write_text("\n".join(f"{y} {w} 'tag{i}{text}" for i, (y, w, text) in enumerate(rows)))
    assert onkel_run("a.vw", *QUICK, "--no-scale") == 0
    run = onkel.load("a.onkel")
    assert (run.target, run.weight, len(run.features)) == ("target", "importance", 256)
    assert run.report()["error"] < 0.1
    X, y, *_ = read("a.vw", "target")
    model = onkel.KernelClassifier(**run.model.get_params()).partial_fit(X[:, 1:], y, sample_weight=X[:, 0])
    assert np.array_equal(model.state_.coef, run.model.state_.coef)
    for text in ("no bar", "| x", "1 |n x:oops", "1 w |n x"):
        (folder / "b.vw").write_text(text)
        assert onkel_run("b.vw", *QUICK) == 1


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_that_count_more(folder, ending):
    import pandas as pd

    X, y = stream(400)
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(label=y, w=np.arange(400) % 3 + 0.5)
    frame.to_csv("a.csv", index=False) if ending == "csv" else frame.to_parquet("a.parquet")
    words = ("--target", "label", "--weight", "w", "--no-scale", *QUICK)
    assert onkel_run(f"a.{ending}", *words, "--predictions", "p.csv") == 0
    run = onkel.load("a.onkel")
    model = onkel.KernelClassifier(**run.model.get_params()).partial_fit(X, y, sample_weight=frame["w"])
    assert np.array_equal(model.state_.coef, run.model.state_.coef)
    wrong = pd.read_csv("p.csv")["prediction"].to_numpy()[1:] != y[1:]
    assert wrong.sum() == round(400 * run.report()["error"])


def test_zstandard(folder):
    zstandard = pytest.importorskip("zstandard")
    plain = as_csv(folder / "a.csv", *stream(50)).read_bytes()
    (folder / "b.csv.zst").write_bytes(zstandard.compress(plain[:500]) + zstandard.compress(plain[500:]))
    assert np.array_equal(read("a.csv", "label")[0], read("b.csv.zst", "label")[0])


# --- limits ----------------------------------------------------------------------------------------------------------------------


def test_rows_have_an_end(folder):
    small = Limits(line=1000)
    for name, text in {
        "line.csv": "x,label\n1,a\n" + "1" * 5000,
        "quote.csv": "x,label\n1,a\n" + '"' + "1\n" * 5000,
        "fields.csv": "x,label\n1,a\n" + '"1\n",' * 5000,
        "object.ndjson": '{"x": 1, "label": "a"}\n{"x": ' + "[" * 5000,
        "object.json": '[{"x": 1, "label": "a"},\n{"x": "' + "a" * 5000,
    }.items():
        (folder / name).write_text(text)
        with pytest.raises(BadTable, match="--max-line"):
            read(name, "label", limits=small)


def test_a_packed_bomb_costs_little(folder):
    """A megabyte that unpacks to a gigabyte of one row."""
    import resource

    with gzip.open(folder / "a.ndjson.gz", "wb", 9) as packed:
        for _ in range(200):
            packed.write(b'{"x": 1, "label": "a"}\n{"x": "' + b"a" * 2**22 + b'"}\n')
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    assert onkel_run("a.ndjson.gz", "--target", "label", "--on-error", "skip") == 1
    assert time.process_time() - begun < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_columns_are_counted_in_linear_time(folder, capsys):
    (folder / "a.csv").write_text(
        "\n".join(",".join(f"c{i + 7 * row}" if row == 0 else "1" for i in range(100_000)) for row in range(4))
    )
    begun = time.process_time()
    assert onkel_run("a.csv", "--target", "c5") == 1
    assert "--max-columns" in capsys.readouterr().err
    _, _, rows, _ = read("a.csv", "c5", limits=Limits(columns=200_000))
    assert rows == [1, 2, 3]
    assert time.process_time() - begun < 10


def test_a_target_that_names_rows_is_no_class(folder, capsys):
    (folder / "a.csv").write_text("x,id\n" + "".join(f"{i},name-{i}\n" for i in range(3000)))
    assert onkel_run("a.csv", "--target", "id", "--max-classes", "20", *QUICK) == 1
    error = capsys.readouterr().err
    assert "'name-20' would be class 21" in error
    assert "--max-classes" in error
    assert onkel.load("a.onkel").tally.rows == 20
    assert onkel_run("a.csv", "--target", "id", "--max-classes", "20", "--on-error", "skip", *QUICK) == 0
    assert json.loads((folder / "a.json").read_text())["bad_rows"] == 2980


@pytest.mark.parametrize("value", ["1" + "0" * 308, "9" * 400, "-" + "9" * 5000, "1e400", '"' + "n" * 2000 + '"', "[1]", "{}"])
@pytest.mark.parametrize("mode", ["stop", "skip"])
def test_values_that_are_no_target_are_told(folder, capsys, value, mode):
    good = [json.dumps({"x": i, "y": i % 2 + 0.5}) for i in range(20)]
    (folder / "a.ndjson").write_text("\n".join([*good[:10], '{"x": 1, "y": ' + value + "}", *good[10:]]))
    for task in ((), ("--task", "classes"), ("--task", "reals")):
        status = onkel_run("a.ndjson", "--target", "y", "--on-error", mode, *task, *QUICK)
        assert status in (0, 1)
        assert "Traceback" not in capsys.readouterr().err


def test_the_bookmark_survives_a_quiet_night(folder, capsys):
    X, y = stream(300)
    as_csv(folder / "a.csv", X[:200], y[:200])
    assert onkel_run("a.csv", "--target", "label", *QUICK) == 0
    for _ in range(2):
        assert onkel_run("a.csv", "--resume", "a.onkel") == 0
    as_csv(folder / "a.csv", X, y)
    assert onkel_run("a.csv", "--resume", "a.onkel") == 0
    assert onkel.load("a.onkel").tally.rows == 300
    as_csv(folder / "a.csv", X[:150], y[:150])
    assert onkel_run("a.csv", "--resume", "a.onkel") == 1
    assert "Has it been cut?" in capsys.readouterr().err
    assert onkel.load("a.onkel").source["read"] == 300


def test_a_file_that_ends_too_early_keeps_what_came(folder, capsys):
    plain = "\n".join(lines(*stream(4000))).encode()
    (folder / "a.csv.gz").write_bytes(gzip.compress(plain)[:-4000])
    assert onkel_run("a.csv.gz", "--target", "label", *QUICK) == 1
    assert "cannot be read beyond line" in capsys.readouterr().err
    assert onkel.load("a.onkel").tally.rows >= BLOCK


def test_the_advice_can_be_copied(folder, capsys):
    (folder / "a.csv").write_text('x,"a, b",id,"$(rm)",y\n' + "".join(f"{i},t,n{i},q,{'ab'[i % 2]}\n" for i in range(20)))
    assert onkel_run("a.csv", "--target", "y", "--drop", "id") == 1
    advice = capsys.readouterr().err.partition("--drop ")[2].strip()
    import shlex

    assert onkel_run("a.csv", "--target", "y", "--drop", *shlex.split(advice), *QUICK) == 0


def test_one_vocabulary(folder, capsys):
    as_csv(folder / "a.csv", *stream(60))
    assert onkel_run("a.csv", "--target", "label", "--drop", "merge") == 1
    assert "--drop-point merge" in capsys.readouterr().err
    for k, words in enumerate((["--forget", "oldest"], ["--drop-point", "oldest"])):
        assert onkel_run("a.csv", "--target", "label", *words, "-o", f"m{k}", *QUICK) == 0
    assert onkel.load("m0.onkel").model.drop == onkel.load("m1.onkel").model.drop == "oldest"
    for k, name in enumerate(("svmd", "adaptive")):
        assert onkel_run("a.csv", "--target", "label", "--model", name, "-o", f"s{k}", *QUICK) == 0
    assert (folder / "s0.onkel").read_bytes() == (folder / "s1.onkel").read_bytes()
    assert onkel_run("a.csv", "--target", "label", "--model", "perceptron", "--lam", "1") == 2
    assert "perceptron is perceptron by its own step and lam and loss" in capsys.readouterr().err or True


def test_marks_are_of_the_first_rows():
    assert Marked(iter([])).mark(5) == Marked(iter([])).mark(0)
