"""The benchmark: its arithmetic, its naive contenders, and a tiny run of the whole machinery."""

import importlib.machinery
import importlib.util
import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import onkel
from onkel.bench import bulk, cli, growth, report, single, start, streams
from onkel.bench.measure import SGEMM, Contender, Race, Result, limits, multiply_add, percent_of_sgemm
from onkel.bench.naive import Silk, SilkClasses, SparseSilk
from onkel.bench.rows import AT_LEAST, AT_MOST, Row, dearer, faster, microseconds

TINY = bulk.Size(rounds=2, seconds=1e-4, shrink=16)


def result(name, *seconds, quality=None):
    return Result(name, 10, list(seconds), quality)


# --- arithmetic ---------------------------------------------------------------------------------------------------------


def test_ratios_are_ratios_of_medians():
    ours, theirs = result("ours", 1e-6, 2e-6, 90e-6), result("theirs", 7e-6, 8e-6, 9e-6)
    row = faster("path", ours, theirs, 4.0)
    assert (row.value, row.against, row.ours, row.theirs, row.verdict) == (4.0, "theirs", 2e-6, 8e-6, "met")
    assert dearer("path", theirs, ours, 2.0).value == 4.0
    assert dearer("path", theirs, ours, 2.0).verdict == "missed"
    assert microseconds("path", ours, 2.0).value == pytest.approx(2.0)


def test_percent_of_the_peak_counts_useful_flops_only():
    shape = bulk.Shape(784, 1024)
    peak = Result(SGEMM, 1, [1e-11])  # 100 GFLOP/s
    at_peak = result("ours", shape.flops * 1e-11)
    assert shape.flops == 2 * 784 * 1024
    assert percent_of_sgemm(shape.flops, at_peak, {SGEMM: peak}) == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("sense", "value", "target", "verdict", "reached"),
    [
        (AT_LEAST, 60.0, 60.0, "met", 1.0),
        (AT_LEAST, 59.9, 60.0, "missed", 59.9 / 60.0),
        (AT_MOST, 0.5, 1.0, "met", 2.0),
        (AT_MOST, 1.1, 1.0, "missed", 1.0 / 1.1),
        (AT_LEAST, 1.0, None, "", None),
    ],
)
def test_verdicts(sense, value, target, verdict, reached):
    row = Row("path", "other", value, "x", sense, target)
    assert row.verdict == verdict
    assert row.reached == (reached if reached is None else pytest.approx(reached))


def test_a_slowed_down_contender_misses():
    """The same work, and the same work with a busy pause: the one row is met, the other is not."""

    def work(pause):
        def once(r):
            until = time.process_time() + pause
            while time.process_time() < until:
                pass

        return once

    def verdict(pause):
        contenders = [Contender("ours", work(pause), 10), Contender("theirs", work(0.02), 10)]
        race = Race("pace", contenders, lambda results: [faster("path", results["ours"], results["theirs"], 4.0)])
        (row,) = race.rows(race.run(3))
        return row.verdict

    assert verdict(0.001) == "met"
    assert verdict(0.015) == "missed"


def test_the_first_call_is_not_timed_and_turns_alternate():
    calls = []
    clock = iter(range(100))
    contenders = [Contender(name, lambda r, name=name: calls.append((name, r)), 2, lambda: next(clock)) for name in "ab"]
    results = Race("turns", contenders, lambda results: []).run(2)
    assert calls == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert results["a"].seconds == [0.5, 0.5]
    assert results["a"].examples == 2


def test_limits_count_flops_and_bytes():
    sgemm, dgemm, fma, read = limits(side=64, megabytes=1)
    assert sgemm.examples == dgemm.examples == 2 * 64**3
    assert fma.examples == 2 * 8 * 16 * 64**2
    assert read.examples == 2**20


def test_the_multiply_adds_are_done():
    values = np.zeros((2, 16), np.float32)
    values[0] = 1.0
    multiply_add(values, 5)  # each of the eight goes 1, 2, 3, 4, 5, 6
    np.testing.assert_array_equal(values[1], 48.0)


# --- nobody is fast by doing something else -----------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 4])
def test_naive_numpy_gives_the_same_scores(classes):
    omega, sigma = 20, 1.0
    loss = onkel.Hinge() if classes == 2 else onkel.Structured(onkel.Labels.flat(classes))
    learner = onkel.silk(onkel.RBF(sigma), loss, eta=0.7, lam=0.02, budget=omega)
    X, y = streams.clusters(3, classes, 400)
    X, y = X.astype(float), 2 * y - 1 if classes == 2 else y
    state, _ = learner.learn(learner.init(), X[:200], y[:200])
    naive = (Silk if classes == 2 else SilkClasses)(state.points, state.coef, sigma, 0.7, 0.02)
    state, trace = learner.learn(state, X[200:], y[200:])
    np.testing.assert_allclose(naive.learn(X[200:], y[200:]), trace.scores, atol=1e-10)
    assert (trace.loss > 0).mean() > 0.2


@pytest.mark.parametrize("spread", [False, True])
def test_naive_scipy_gives_the_same_scores(spread):
    learner = onkel.silk(onkel.Linear(), onkel.Hinge(), eta=1.0, lam=0.01, budget=16)
    X, y = streams.documents(300, words=200, length=10)
    X = X.astype(float)
    state, _ = learner.learn(learner.init(), X[:150], y[:150])
    naive = SparseSilk(state.points, state.coef, 1.0, 0.01, spread)
    _, trace = learner.learn(state, X[150:], y[150:])
    np.testing.assert_allclose(naive.learn(X[150:], y[150:]), trace.scores, atol=1e-10)


def test_documents_have_equal_lengths_and_popular_words():
    X, _ = streams.documents(50, words=1000, length=20)
    assert (np.diff(X.indptr) == 20).all()
    assert all(len(set(X[i].indices)) == 20 for i in range(50))
    frequency = np.bincount(X.indices, minlength=1000)
    assert frequency[:10].mean() > 10 * frequency[500:].mean()


def test_area_under_roc_is_the_share_of_pairs_in_order():
    rng = np.random.default_rng(0)
    scores, odd = rng.normal(size=60), rng.random(60) < 0.3
    pairs = scores[odd][:, None] > scores[~odd][None]
    assert streams.area_under_roc(scores, odd) == pytest.approx(pairs.mean())


# --- the whole machinery ------------------------------------------------------------------------------------------------


def run(monkeypatch, tmp_path, *words):
    monkeypatch.setattr(cli, "QUICK", TINY)
    assert cli.main([*words, "--quick", "--no-peers", "--out", str(tmp_path)]) == 0
    return json.loads((tmp_path / "bench.json").read_text())


def check_schema(found):
    assert set(found) == {"command", "when", "machine", "versions", "threads", "limits", "rows", "skipped", "races"}
    assert {"processor", "cores", "load", "load after"} <= set(found["machine"])
    assert {"python", "numpy", "numba"} <= set(found["versions"])
    for row in found["rows"]:
        assert row["verdict"] in ("met", "missed", "")
        assert (row["verdict"] == "") == (row["target"] is None)
        assert row["value"] > 0 or row["unit"] == "power"
    for race in found["races"]:
        for contender in race["contenders"]:
            assert contender["median"] == np.median(contender["seconds"]) > 0


def test_a_tiny_run(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(bulk, "SHAPES", bulk.SHAPES[:1])
    monkeypatch.setattr(growth, "OMEGAS", (128, 256, 512, 1024))
    monkeypatch.setattr(growth, "WIDTHS", (8, 16, 32, 64))
    found = run(monkeypatch, tmp_path, "--only", "bulk", "growth")
    check_schema(found)
    assert set(found["limits"]) == {"SGEMM GFLOP/s", "DGEMM GFLOP/s", "multiply-adds GFLOP/s", "read GB/s"}
    assert "left out: the peers, as --no-peers says" in found["skipped"]
    memory = next(row for row in found["rows"] if row["path"].startswith("memory"))
    assert (memory["value"], memory["verdict"]) == (1.0, "met")
    printed = capsys.readouterr().out
    assert "naive NumPy" in printed
    assert "Limits in the same rounds: SGEMM" in printed
    assert all(row["path"] in printed for row in found["rows"])
    assert "| naive NumPy |" in (tmp_path / "bench.md").read_text()


def test_charts(tmp_path):
    pytest.importorskip("matplotlib")
    rows = [Row("fast", "other", 90.0, "x", AT_LEAST, 60.0), Row("slow", "", 3.0, "us", AT_MOST, 1.0), Row("free", "it", 2.0, "x")]
    sizes = {str(n): result(str(n), n * 1e-6) for n in (8, 16, 32)}
    steady = {"t": result("t", *[1e-6] * 8)}
    finished = [
        (Race("growth in omega, d = 2", [], lambda results: []), sizes),
        (Race("growth in d, omega = 8", [], lambda results: []), sizes),
        (Race("growth in t up to 8, d = 2", [], lambda results: [], extra={"nbytes": [8.0] * 8}), steady),
    ]
    found = report.as_json(finished, rows, [], report.machine(), "onkel bench")
    written = report.write(tmp_path, found, rows)
    assert {path.name for path in written} >= {"bench.json", "bench.md", "bench-light.png", "bench-dark.svg", "growth-light.svg"}
    assert all(path.stat().st_size > 0 for path in written)
    assert "times the target" in (tmp_path / "bench-light.svg").read_text()


@pytest.mark.parametrize(("power", "verdict"), [(1.0, "met"), (2.0, "missed")])
def test_growth_is_judged_by_its_power(power, verdict):
    results = {str(n): result(str(n), 1e-9 * n**power) for n in (64, 256, 1024, 4096)}
    (row,) = growth.exponent_row("growth", results)
    assert row.value == pytest.approx(power)
    assert row.verdict == verdict


def test_a_stream_that_slows_down_or_grows_is_missed():
    rising = result("t", *np.linspace(1e-6, 2e-6, 20))
    time_row, memory_row = growth.stream_rows("growth in t", rising, [100.0, 101.0])
    assert (time_row.verdict, memory_row.verdict) == ("missed", "missed")


def test_missing_peers_are_named(monkeypatch):
    monkeypatch.setattr(cli, "find_spec", lambda name: None)
    lines = cli.left_out(False, [])
    assert any("River" in line and "./run bench" in line for line in lines)
    assert any("Vowpal Wabbit" in line for line in lines)
    assert not any("River" in line for line in cli.left_out(False, ["bulk"]))


def test_unknown_names_are_refused(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--only", "everything"])
    assert "growth" in capsys.readouterr().err


@pytest.mark.slow
def test_all_of_ours(monkeypatch, tmp_path):
    monkeypatch.setattr(growth, "STREAM", 20_000)
    check_schema(run(monkeypatch, tmp_path))


@pytest.mark.slow
def test_peers_predict_and_are_timed(monkeypatch, tmp_path):
    pytest.importorskip("river")
    found, rows = cli.measure([single.peers, single.novelty], TINY, [], "onkel bench")
    check_schema(found)
    assert {"River ARF(10)", "scikit-learn SGD, row by row", "scikit-learn SVC, sliding window"} <= {row.against for row in rows}
    assert all(0.0 <= row.their_quality <= 1.0 for row in rows)


@pytest.mark.slow
def test_video_runs():
    pytest.importorskip("cv2")
    from onkel.bench import video

    found, rows = cli.measure([video.video, video.two_threads], TINY, [], "onkel bench video")
    check_schema(found)
    assert [row.against for row in rows[:4]] == [video.MOG2, video.KNN, video.MOG2, video.KNN]
    assert all(row.quality > 0.7 and row.their_quality > 0.8 for row in rows[:4])  # they find the rectangles
    assert len(rows) == 8
    assert 0 < rows[4].value


# --- ./run bench --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "folder", "extra"), [(["bench"], ".venv-bench", "bench"), (["test"], ".venv", "dev")])
def test_the_peers_have_an_environment_of_their_own(monkeypatch, words, folder, extra):
    root = Path(__file__).resolve().parents[2]
    loader = importlib.machinery.SourceFileLoader("run_script", str(root / "run"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "argv", ["run", *words])
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_script", loader))
    loader.exec_module(module)
    assert (module.VENV.name, module.EXTRA) == (folder, extra)
    assert module.PYTHON.is_relative_to(module.VENV)


# --- how long the first things take -------------------------------------------------------------------------------------


def test_a_program_is_timed_part_by_part(tmp_path):
    """Each part from where the one before has ended, and machine code in the folder that is named."""
    busy = "while time.process_time() < noted[-1] + {}: pass"
    kept = f"import os\nassert os.environ['NUMBA_CACHE_DIR'] == {str(tmp_path)!r}\n"
    parts = {"first fit": busy.format(0.2), "first row": kept + busy.format(0.05)}
    found = start.seconds(parts, str(tmp_path))
    assert list(found) == ["first fit", "first row"]
    assert 0.2 <= found["first fit"]
    assert 0.05 <= found["first row"] < 0.2


def test_every_first_thing_has_a_cold_and_a_warm_row(monkeypatch, capsys):
    asked = []

    def seconds(parts, folder):
        asked.append(folder)
        return dict.fromkeys(parts, 1.0 if folder in asked[:-1] else 4.0)

    monkeypatch.setattr(start, "seconds", seconds)
    assert cli.main(["start", "--quick"]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "cold" in line or "warm" in line]
    assert [line.split("  ")[0] for line in said[::2]] == list(start.ORDER)
    assert {name for parts in start.PROGRAMS.values() for name in parts} == set(start.ORDER)
    assert [line.split()[-2:] for line in said] == [["cold", "4.00"], ["warm", "1.00"]] * len(start.ORDER)
    assert len(set(asked)) == len(start.PROGRAMS)  # a folder that nobody has used yet for each
