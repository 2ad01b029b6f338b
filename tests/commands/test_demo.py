"""`./run demo`: small runs of all of it."""

import sys

import numpy as np
import pytest

from onkel.commands import demo
from onkel.streams import drifting_mixtures


def test_demo_prints_a_table_and_writes_a_figure(tmp_path, capsys):
    path = tmp_path / "new" / "demo.png"
    assert demo.main(["--trials", "2", "--out", str(path)]) == 0
    printed = capsys.readouterr()
    assert all(name in printed.out for name in demo.CHOSEN)
    assert (path.parent / "drift.csv").read_text().startswith("x1,x2,class\n")
    assert f"onkel run {path.parent / 'drift.csv'} --target class" in printed.out
    assert str(path) in printed.out
    assert "\x1b" not in printed.err  # not a terminal, so no bar
    assert path.read_bytes().startswith(b"\x89PNG")
    rows = [line for line in printed.out.splitlines() if "█" in line]
    mistakes = [float(row[18:28]) for row in rows]
    assert len(rows) == len(demo.CHOSEN)
    assert mistakes == sorted(mistakes)


def test_forgetting_pays_and_the_budget_is_kept():
    results = demo.run([drifting_mixtures(2000, seed) for seed in range(3)])
    mistakes = {name: result.mistake.sum() for name, result in results.items()}
    assert mistakes["ILK"] < mistakes["ILK(0)"]
    assert mistakes["NORMA"] < mistakes["NORMA(0)"]
    for name in ("SILK", "NORMA, truncated", "SVMD"):
        assert results[name].size.max() == demo.BUDGET
    assert len(np.unique(results["SVMD"].eta)) > 100
    assert len(np.unique(results["ILK"].eta)) == 1


def test_dark_figure_is_another_file(tmp_path):
    for name, dark in (("light", []), ("dark", ["--dark"])):
        demo.main(["--trials", "1", "--out", str(tmp_path / name) + ".png", *dark])
    assert (tmp_path / "light.png").read_bytes() != (tmp_path / "dark.png").read_bytes()


def test_without_matplotlib_the_table_still_comes(tmp_path, capsys, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert demo.main(["--trials", "1", "--out", str(tmp_path / "demo.png")]) == 1
    printed = capsys.readouterr().out
    assert "NORMA" in printed
    assert "onkel[plot]" in printed


def test_trials_must_be_positive(capsys):
    with pytest.raises(SystemExit):
        demo.main(["--trials", "0"])
    assert "a whole number from 1 on, got '0'" in capsys.readouterr().err


def test_tuning_takes_the_best_of_a_small_grid():
    grid = {"sigma": (80.0,), "eta": (1e-4, 0.3), "lam": (0.1, 20.0), "mu": (0.01,)}
    chosen = demo.tune("NORMA", seeds=[1000], grid=grid)
    assert chosen == demo.Parameters(80.0, 0.3, 0.1)
    assert demo.tune("NORMA(0)", seeds=[1000], grid=grid).lam == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", demo.CHOSEN)
def test_the_parameters_are_the_tuned_ones(name):
    assert demo.tune(name) == demo.CHOSEN[name]
