"""What is not installed is told in one line that names the extra, before any work."""

import os
import subprocess
import sys
import tomllib

import pytest

from onkel.terminal.extras import EXTRAS
from tests.commands.support import ROOT, as_csv, stream

WITHOUT = (
    "import sys\n"
    f"for name in {[*EXTRAS, 'vowpalwabbit']!r}: sys.modules[name] = None\n"
    "import warnings; warnings.simplefilter('error')\n"
    "from onkel import cli\n"
    "sys.exit(cli.main(sys.argv[1:]))"
)


def without_extras(*words, cwd):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", WITHOUT, *words], capture_output=True, text=True, env=environment, cwd=cwd)


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("video film.mp4", "video"),
        ("video eval folder", "video"),
        ("reproduce --quick", "plot"),
        ("bench --quick", "plot"),
        ("bench video", "video"),
        ("bench gpu", "gpu"),
        ("bench defaults", "river"),
        ("run a.csv --target label --report run.html", "plot"),
        ("run a.parquet --target label", "tables"),
        ("run a.csv --target label --predictions p.parquet", "tables"),
    ],
)
def test_one_line_names_the_extra(tmp_path, words, extra):
    as_csv(tmp_path / "a.csv", *stream(20))
    (tmp_path / "a.parquet").touch()
    ended = without_extras(*words.split(), cwd=tmp_path)
    assert ended.returncode in (1, 2), ended.stderr
    assert f"pip install 'onkel[{extra}]'" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.parquet"]


def test_a_run_without_matplotlib_says_that_there_is_no_figure(tmp_path):
    as_csv(tmp_path / "a.csv", *stream(50))
    ended = without_extras("run", "a.csv", "--target", "label", "--budget", "16", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "no figure: matplotlib is not installed; pip install 'onkel[plot]'" in ended.stdout


def test_completion_and_help_need_no_extra(tmp_path):
    assert without_extras("completion", "bash", cwd=tmp_path).returncode == 0
    assert without_extras("--help", cwd=tmp_path).returncode == 0


def test_importing_the_door_to_river_names_it_too(tmp_path):
    code = "import sys; sys.modules['river'] = None\ntry:\n    import onkel.river\nexcept ImportError as error:\n    print(error)"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert ended.stdout == "onkel.river needs river, which is not installed: pip install 'onkel[river]'\n"


def test_every_extra_that_is_named_exists_and_brings_the_package():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    called = {"cv2": "opencv"}
    for module, extra in EXTRAS.items():
        assert any(called.get(module, module.replace("_", "-")) in package for package in extras[extra]), module
