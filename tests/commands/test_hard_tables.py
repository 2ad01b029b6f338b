"""Tables of any bytes and any text: learned from, or refused in one clear error."""

import json
import warnings
from contextlib import closing, suppress

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import onkel
from onkel import cli
from onkel.commands.rows import BadRow, BadTable
from onkel.commands.scorecard import Scale
from onkel.commands.tables import Reader, Table

# --- tables ----------------------------------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(
    noise=st.binary(max_size=400), ending=st.sampled_from([".csv", ".ndjson", ".parquet", ".csv.gz", ".tsv"]), skip=st.booleans()
)
def test_any_bytes_as_a_table(noise, ending, skip, tmp_path_factory):
    path = tmp_path_factory.mktemp("noise") / f"a{ending}"
    path.write_bytes(noise)
    with suppress(BadTable), closing(Table(str(path))) as table:
        for block in Reader(table, table.columns[:2], None).blocks(iter(table), stop=not skip):
            assert np.isfinite(block.X).all()


@settings(max_examples=150)
@given(
    rows=st.lists(
        st.lists(st.text(st.characters(codec="utf-8"), max_size=6) | st.floats().map(repr), min_size=1, max_size=4), max_size=12
    ),
    target=st.booleans(),
)
def test_any_text_as_rows(rows, target, tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "a.csv"
    path.write_text("a,b,y\n" + "\n".join(",".join(row) for row in rows), encoding="utf-8")
    table = Table(str(path))
    try:
        good = bad = 0
        for block in Reader(table, ["a", "b"], "y" if target else None, reals=True).blocks(iter(table)):
            assert np.isfinite(block.X).all()
            assert len(block.X) == len(block.y)
            assert all(isinstance(error, BadRow) and "line" in str(error) for error in block.bad)
            good, bad = good + len(block.X), bad + len(block.bad)
            assert block.read == len(block.X) + len(block.bad)
    finally:
        table.close()


@settings(max_examples=25)
@given(draw=st.data())
def test_any_table_through_the_whole_command(tmp_path_factory, draw):
    folder = tmp_path_factory.mktemp("run")
    cell = st.sampled_from(["1", "0.5", "-3e5", "1e300", "nan", "", "x", "1e-320", "inf", "7"])
    rows = draw.draw(st.lists(st.tuples(cell, cell, st.sampled_from(["a", "b", "c", "", "日"])), max_size=40))
    (folder / "a.csv").write_text("u,v,y\n" + "\n".join(",".join(row) for row in rows))
    model = draw.draw(st.sampled_from(["silk", "norma"]))
    words = f"run {folder}/a.csv --target y --task classes --model {model} --budget 8 --out {folder}/o --no-figure -q --on-error"
    status = cli.main([*words.split(), draw.draw(st.sampled_from(["skip", "stop"]))])
    assert status in (0, 1)
    if (folder / "o.json").exists():
        report = json.loads((folder / "o.json").read_text())
        assert report["rows"] + report["bad_rows"] <= len(rows)
        onkel.load(folder / "o.onkel")


@settings(max_examples=80)
@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 20), st.just(2)), elements=st.floats(-1e150, 1e150)))
def test_scaling_any_numbers_stays_finite(X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(Scale(2).scaled(X)).all()


def test_memory_is_bounded_by_the_block(tmp_path, monkeypatch):
    """Fifty times the rows, the same memory."""
    import tracemalloc

    def peak(n):
        path = tmp_path / f"{n}.csv"
        with open(path, "w") as stream:
            stream.write("a,b,y\n")
            stream.writelines(f"{i % 17},{i % 13},{'ab'[i % 2]}\n" for i in range(n))
        table = Table(str(path))
        tracemalloc.start()
        for _ in Reader(table, ["a", "b"], "y").blocks(iter(table)):
            pass
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        table.close()
        return used

    assert peak(100_000) < 1.5 * peak(2_000) + 100_000
