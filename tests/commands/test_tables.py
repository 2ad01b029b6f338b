"""Tables as they come: dates, booleans, decimal commas, arrays, columns; and what a hostile one may not do."""

import gzip
import json
import time
from contextlib import closing

import numpy as np
import pytest

import onkel
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


def test_booleans_dates_and_times_are_numbers(here):
    (here / "a.csv").write_text("yes,day,hour,label\nTrue,1970-01-02,00:01,a\nfalse,1970-01-01T00:00:05Z,12:00:01,b\n")
    X, y, rows, bad = read("a.csv", "label")
    assert X.tolist() == [[1.0, 86400.0, 60.0], [0.0, 5.0, 43201.0]]
    assert (y, rows, bad) == (["a", "b"], [1, 2], [])


def test_a_decimal_comma(here):
    (here / "a.csv").write_text("x;label\n" + "".join(f"{i},5;{'ab'[i % 2]}\n" for i in range(30)))
    assert onkel_run("a.csv", "--target", "label") == 1
    assert onkel_run("a.csv", "--target", "label", "--decimal", ",", *QUICK) == 0
    run = onkel.load("a.onkel")
    assert (run.decimal, run.scale.first[0]) == (",", 0.5)
    assert onkel_run("a.csv", "--resume", "a.onkel") == 0


def test_arrays_and_columns_give_what_lines_give(here):
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


def test_gaps_and_text_in_columns_are_told_as_in_lines(here):
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


def test_parquet_goes_on_where_it_stopped(here):
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


def test_zstandard(here):
    zstandard = pytest.importorskip("zstandard")
    plain = as_csv(here / "a.csv", *stream(50)).read_bytes()
    (here / "b.csv.zst").write_bytes(zstandard.compress(plain[:500]) + zstandard.compress(plain[500:]))
    assert np.array_equal(read("a.csv", "label")[0], read("b.csv.zst", "label")[0])


# --- limits ----------------------------------------------------------------------------------------------------------------------


def test_rows_have_an_end(here):
    small = Limits(line=1000)
    for name, text in {
        "line.csv": "x,label\n1,a\n" + "1" * 5000,
        "quote.csv": "x,label\n1,a\n" + '"' + "1\n" * 5000,
        "fields.csv": "x,label\n1,a\n" + '"1\n",' * 5000,
        "object.ndjson": '{"x": 1, "label": "a"}\n{"x": ' + "[" * 5000,
        "object.json": '[{"x": 1, "label": "a"},\n{"x": "' + "a" * 5000,
    }.items():
        (here / name).write_text(text)
        with pytest.raises(BadTable, match="--max-line"):
            read(name, "label", limits=small)


def test_a_packed_bomb_costs_little(here):
    """A megabyte that unpacks to a gigabyte of one row."""
    import resource

    with gzip.open(here / "a.ndjson.gz", "wb", 9) as packed:
        for _ in range(200):
            packed.write(b'{"x": 1, "label": "a"}\n{"x": "' + b"a" * 2**22 + b'"}\n')
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.process_time()
    assert onkel_run("a.ndjson.gz", "--target", "label", "--on-error", "skip") == 1
    assert time.process_time() - begun < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_columns_are_counted_in_linear_time(here, capsys):
    (here / "a.csv").write_text(
        "\n".join(",".join(f"c{i + 7 * row}" if row == 0 else "1" for i in range(100_000)) for row in range(4))
    )
    begun = time.process_time()
    assert onkel_run("a.csv", "--target", "c5") == 1
    assert "--max-columns" in capsys.readouterr().err
    _, _, rows, _ = read("a.csv", "c5", limits=Limits(columns=200_000))
    assert rows == [1, 2, 3]
    assert time.process_time() - begun < 10


def test_a_target_that_names_rows_is_no_class(here, capsys):
    (here / "a.csv").write_text("x,id\n" + "".join(f"{i},name-{i}\n" for i in range(3000)))
    assert onkel_run("a.csv", "--target", "id", "--max-classes", "20", *QUICK) == 1
    error = capsys.readouterr().err
    assert "'name-20' would be class 21" in error
    assert "--max-classes" in error
    assert onkel.load("a.onkel").tally.rows == 20
    assert onkel_run("a.csv", "--target", "id", "--max-classes", "20", "--on-error", "skip", *QUICK) == 0
    assert json.loads((here / "a.json").read_text())["bad_rows"] == 2980


@pytest.mark.parametrize("value", ["1" + "0" * 308, "9" * 400, "-" + "9" * 5000, "1e400", '"' + "n" * 2000 + '"', "[1]", "{}"])
@pytest.mark.parametrize("mode", ["stop", "skip"])
def test_values_that_are_no_target_are_told(here, capsys, value, mode):
    good = [json.dumps({"x": i, "y": i % 2 + 0.5}) for i in range(20)]
    (here / "a.ndjson").write_text("\n".join([*good[:10], '{"x": 1, "y": ' + value + "}", *good[10:]]))
    for task in ((), ("--task", "classes"), ("--task", "reals")):
        status = onkel_run("a.ndjson", "--target", "y", "--on-error", mode, *task, *QUICK)
        assert status in (0, 1)
        assert "Traceback" not in capsys.readouterr().err


def test_the_bookmark_survives_a_quiet_night(here, capsys):
    X, y = stream(300)
    as_csv(here / "a.csv", X[:200], y[:200])
    assert onkel_run("a.csv", "--target", "label", *QUICK) == 0
    for _ in range(2):
        assert onkel_run("a.csv", "--resume", "a.onkel") == 0
    as_csv(here / "a.csv", X, y)
    assert onkel_run("a.csv", "--resume", "a.onkel") == 0
    assert onkel.load("a.onkel").tally.rows == 300
    as_csv(here / "a.csv", X[:150], y[:150])
    assert onkel_run("a.csv", "--resume", "a.onkel") == 1
    assert "Has it been cut?" in capsys.readouterr().err
    assert onkel.load("a.onkel").source["read"] == 300


def test_a_file_that_ends_too_early_keeps_what_came(here, capsys):
    plain = "\n".join(lines(*stream(4000))).encode()
    (here / "a.csv.gz").write_bytes(gzip.compress(plain)[:-4000])
    assert onkel_run("a.csv.gz", "--target", "label", *QUICK) == 1
    assert "cannot be read beyond line" in capsys.readouterr().err
    assert onkel.load("a.onkel").tally.rows >= BLOCK


def test_the_advice_can_be_copied(here, capsys):
    (here / "a.csv").write_text('x,"a, b",id,"$(rm)",y\n' + "".join(f"{i},t,n{i},q,{'ab'[i % 2]}\n" for i in range(20)))
    assert onkel_run("a.csv", "--target", "y", "--drop", "id") == 1
    advice = capsys.readouterr().err.partition("--drop ")[2].strip()
    import shlex

    assert onkel_run("a.csv", "--target", "y", "--drop", *shlex.split(advice), *QUICK) == 0


def test_one_vocabulary(here, capsys):
    as_csv(here / "a.csv", *stream(60))
    assert onkel_run("a.csv", "--target", "label", "--drop", "merge") == 1
    assert "--drop-point merge" in capsys.readouterr().err
    for k, words in enumerate((["--forget", "oldest"], ["--drop-point", "oldest"])):
        assert onkel_run("a.csv", "--target", "label", *words, "-o", f"m{k}", *QUICK) == 0
    assert onkel.load("m0.onkel").model.drop == onkel.load("m1.onkel").model.drop == "oldest"
    for k, name in enumerate(("svmd", "adaptive")):
        assert onkel_run("a.csv", "--target", "label", "--model", name, "-o", f"s{k}", *QUICK) == 0
    assert (here / "s0.onkel").read_bytes() == (here / "s1.onkel").read_bytes()
    assert onkel_run("a.csv", "--target", "label", "--model", "perceptron", "--lam", "1") == 2
    assert "perceptron is perceptron by its own step and lam and loss" in capsys.readouterr().err or True


def test_marks_are_of_the_first_rows():
    assert Marked(iter([])).mark(5) == Marked(iter([])).mark(0)
