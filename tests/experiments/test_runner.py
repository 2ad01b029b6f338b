"""Parts are kept, continued, compared by what decides them; claims are judged by their checks."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onkel.experiments import NAMES, cli, every_figure, figure, report, runner
from onkel.experiments.experiment import Claim, Experiment, Part, Setting, fewer, judge, overall

CALLS = []


def square(setting, x):
    CALLS.append(x)
    if x == 13:
        raise RuntimeError("unlucky")
    return {"y": np.array([x * x, setting.seed]), "name": f"of {x}"}


def fake(*xs: int) -> Experiment:
    def draw(numbers, theme):
        from onkel import plots

        drawn, (axes,) = plots.panels(1)
        axes.plot([1, 2], [1, 2])
        return drawn

    return Experiment(
        name="fake",
        paper="none",
        title="A title with <brackets>",
        shows="What is shown.\n\nMore.",
        parts=lambda setting: [Part(f"x {x}", square, {"x": x}, cost=x) for x in xs],
        claims=lambda numbers: [Claim("squares", "4", str(numbers["x 2"]["y"][0]), {"four": numbers["x 2"]["y"][0] == 4})],
        draw=draw,
        table=lambda numbers: [{"part": name, "y": int(part["y"][0])} for name, part in numbers.items()],
    )


@pytest.fixture(autouse=True)
def forget_calls():
    CALLS.clear()


def test_parts_are_computed_once_longest_first_and_handed_over_in_order(tmp_path):
    seen = []
    for _ in range(2):
        assert runner.run([fake(2, 5, 3)], Setting(), tmp_path, finished=lambda e, parts: seen.append(parts)) == {}
    assert CALLS == [5, 3, 2]
    assert [list(parts) for parts in seen] == [["x 2", "x 5", "x 3"]] * 2
    for part in seen[1].values():
        assert part["name"].startswith("of")
        assert part["seconds"] >= 0
    np.testing.assert_array_equal(seen[0]["x 5"]["y"], seen[1]["x 5"]["y"])


def test_an_interrupted_run_goes_on(tmp_path):
    def stop(setting, x):
        if x == 3:
            raise KeyboardInterrupt
        return square(setting, x)

    broken = replace(fake(), parts=lambda s: [Part(f"x {x}", stop, {"x": x}, cost=x) for x in (2, 5, 3)])
    with pytest.raises(KeyboardInterrupt):
        runner.run([broken], Setting(), tmp_path)
    assert CALLS == [5]
    stop.__code__ = (lambda setting, x: square(setting, x)).__code__
    runner.run([broken], Setting(), tmp_path)
    assert CALLS == [5, 3, 2]


def test_seed_size_and_arguments_decide_a_part_the_folder_does_not(tmp_path):
    experiment = fake(2)
    part = experiment.parts(Setting())[0]
    mine = runner.fingerprint(experiment, part, Setting())
    assert mine == runner.fingerprint(experiment, part, Setting(directory=Path("elsewhere")))
    others = {
        runner.fingerprint(experiment, part, Setting(seed=1)),
        runner.fingerprint(experiment, part, Setting("quick")),
        runner.fingerprint(experiment, replace(part, arguments={"x": 7}), Setting()),
    }
    assert len(others | {mine}) == 4


def test_the_fingerprint_sees_code_but_not_words(tmp_path):
    files = []
    for k, text in enumerate(
        (
            '"""One."""\ndef f():\n    """Two."""\n    return 1  # three\n\ndef claims(n):\n    return []\n\nEXPERIMENT = 3\n',
            "def f():\n    return 1\n",
            "def f():\n    return 2\n",
        )
    ):
        files.append(tmp_path / f"{k}.py")
        files[-1].write_text(text)
    one, same, other = (runner.code(file) for file in files)
    assert one == same != other


def test_a_failing_part_is_told_and_the_others_are_kept(tmp_path):
    finished = []
    failed = runner.run([fake(2, 13)], Setting(), tmp_path, finished=lambda *_: finished.append(1))
    assert "unlucky" in failed["fake"]
    assert not finished
    CALLS.clear()
    runner.run([fake(2, 13)], Setting(), tmp_path)
    assert CALLS == [13]


def test_processes_give_the_same_numbers(tmp_path):
    one, two = {}, {}
    experiment = figure("norma_truncation")
    for jobs, found in ((1, one), (2, two)):
        runner.run([experiment], Setting("tiny"), tmp_path / str(jobs), jobs, finished=lambda e, parts, f=found: f.update(parts))
    assert list(one) == list(two)
    for name, part in one.items():
        for key in set(part) - {"seconds", "cpu_seconds"}:
            np.testing.assert_array_equal(part[key], two[name][key])


def test_report_is_complete_and_self_contained(tmp_path):
    setting = Setting("quick", seed=3)
    experiment = fake(2, 3)
    runner.run([experiment], setting, tmp_path, finished=lambda e, parts: report.finish(e, parts, setting, tmp_path))
    for theme in ("light", "dark"):
        for kind in ("png", "svg"):
            assert (tmp_path / "fake" / f"fake-{theme}.{kind}").stat().st_size > 1000
    result = json.loads((tmp_path / "fake" / "result.json").read_text())
    assert result["verdict"] == "reproduced"
    assert result["seed"] == 3
    assert result["parameters"] == {"x 2": {"x": 2}, "x 3": {"x": 3}}
    assert "numpy" in result["versions"]
    assert result["rerun"] == "onkel reproduce fake --quick --seed 3"
    page = report.index(tmp_path, report.collect(tmp_path, ["fake"]), {"other": "Traceback\nno such file"}).read_text()
    assert "A title with &lt;brackets&gt;" in page
    assert "no such file" in page
    assert page.count("data:image/png;base64,") == 2
    for outside in ("http://", "https://", "<script", "<link"):
        assert outside not in page


def test_verdicts():
    assert judge([True, True]) == "reproduced"
    assert judge([True, False]) == "in part"
    assert judge([False]) == "not reproduced"
    yes, no = (Claim("", "", "", {"a": ok}) for ok in (True, False))
    assert overall([yes, yes]) == "reproduced"
    assert overall([yes, no]) == "in part"
    assert overall([no]) == "not reproduced"


def test_fewer_needs_two_standard_errors():
    assert fewer([1, 2, 3], [2, 3, 4.1])
    assert not fewer([2, 3, 4.1], [1, 2, 3])
    assert not fewer([1, 5, 3], [2, 3, 4.1])
    assert fewer(1.0, 2.0)


def test_command_lists_every_figure(capsys):
    assert cli.main(["reproduce", "--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == list(NAMES)
    for experiment in every_figure():
        assert experiment.name in NAMES
        assert sys.modules[f"onkel.experiments.figures.{experiment.name}"].__doc__ == experiment.shows


def test_unknown_figure_is_an_error_that_lists_the_known(capsys):
    assert cli.main(["reproduce", "ilk_fig9"]) == 2
    assert "ilk_fig1" in capsys.readouterr().err


def test_without_data_the_command_says_what_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("ONKEL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    out = tmp_path / "results"
    assert cli.main(["reproduce", "svmd_fig3", "--out", str(out), "--data", str(tmp_path / "data")]) == 1
    assert str(tmp_path / "data" / "usps" / "usps.npz") in capsys.readouterr().err
    assert "not run" in (out / "index.html").read_text()


def test_data_command_lists_sets(tmp_path, capsys):
    assert cli.main(["data", "--data", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for name in ("mnist", "wipo_d", "drifting_mixtures", "CC BY 4.0"):
        assert name in printed


def test_whatever_an_experiment_imports_decides_what_is_computed_again():
    """Followed from import to import, to the files of onkel that a figure may run: all of them lie in what is fingerprinted."""
    package = Path(runner.__file__).resolve().parents[1]
    assert all((package / name).exists() for name in runner.DECIDING)
    only_telling = {"plots.py", "__init__.py", "experiments/experiment.py"}
    for file in (package / "experiments" / "figures").glob("*.py"):
        for module in re.findall(r"^from onkel\.?([\w.]*) import (\w+)", file.read_text(), re.MULTILINE):
            path = "/".join(filter(None, (*module[0].split("."), module[1])))
            path = f"{path}.py" if (package / f"{path}.py").exists() else f"{'/'.join(module[0].split('.'))}.py"
            assert path in only_telling or any(path.startswith(name) for name in runner.DECIDING), path
