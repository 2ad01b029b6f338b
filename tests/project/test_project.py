"""The project around the code: its front door, its promises about imports, its files."""

import ast
import importlib.machinery
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CORE = sorted((ROOT / "onkel" / "core").rglob("*.py"))


def packages(nodes):
    """Names of the packages that these statements import."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "onkel").split(".")[0] if node.level == 0 else "onkel"


@pytest.mark.parametrize("file", CORE, ids=lambda file: file.stem)
def test_the_core_imports_numpy_and_numba_only(file):
    """llvmlite is the lower half of Numba. Inside functions two more, which scikit-learn brings: scipy for those that are
    handed a sparse matrix, threadpoolctl where BLAS must keep to fewer threads."""
    module = ast.parse(file.read_text())
    allowed = {"numpy", "numba", "llvmlite", "onkel"} | sys.stdlib_module_names
    assert set(packages(module.body)) <= allowed
    assert set(packages(ast.walk(module))) <= allowed | {"scipy", "threadpoolctl"}


def test_mypy_is_strict_on_the_whole_core():
    assert PROJECT["tool"]["mypy"]["strict"]
    assert "onkel/core" in PROJECT["tool"]["mypy"]["files"]


def test_every_room_says_what_it_is_for():
    for folder in {file.parent for file in (ROOT / "onkel").rglob("*.py")}:
        says = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
        assert len(says) > 60, folder


def test_only_the_machine_room_compiles_by_numba_itself():
    """Everything else compiles through core/machine, whose cache knows which files machine code was made of."""
    for file in sorted((ROOT / "onkel").rglob("*.py")):
        if file.parent != ROOT / "onkel" / "core" / "machine":
            for node in ast.walk(ast.parse(file.read_text())):
                imported = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
                names = [node.attr] if isinstance(node, ast.Attribute) else imported
                assert not {"njit", "jit", "vectorize", "guvectorize", "cfunc", "stencil"} & set(names), file


def test_few_files_lie_in_the_hall():
    assert len(list((ROOT / "onkel").glob("*.py"))) <= 12


def test_only_the_terminal_room_writes_control_codes():
    for file in (ROOT / "onkel").rglob("*.py"):
        if file.parent.name != "terminal":
            assert not re.search(r"isatty|\\x1b|\\033", file.read_text()), file


def test_import_is_lazy():
    """`import onkel` loads none of the heavy packages, and what it lists exists."""
    heavy = "numba scipy sklearn matplotlib river cv2 av pandas cupy".split()
    loaded = f"print(sorted(set({heavy}) & set(sys.modules)))"
    code = f"import sys, onkel; {loaded}; assert all(hasattr(onkel, name) for name in dir(onkel))"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stdout + result.stderr
    assert result.returncode == 0, result.stderr


def test_all_is_everything_but_gpu():
    extras = PROJECT["project"]["optional-dependencies"]
    named = set(re.fullmatch(r"onkel\[(.*)\]", extras["all"][0]).group(1).split(","))
    assert named == set(extras) - {"gpu", "dev", "all", "bench"}
    assert "onkel[all]" in extras["dev"]


def test_changelog_begins_with_the_version():
    heading = re.search(r"^## (\S+),", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heading.group(1) == PROJECT["project"]["version"]


def test_readme_names_the_commands_that_ci_runs():
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert any("./run demo" in block and "./run test" in block for block in blocks)
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("exec ./run test")


def test_no_binary_file_but_the_pictures_of_the_readme():
    """docs/decisions/0003: one picture, and a small one."""
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("needs the git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    files = [ROOT / name.decode() for name in listed.split(b"\0") if name]
    binary = {str(f.relative_to(ROOT)) for f in files if f.is_file() and b"\0" in f.read_bytes()[:8000]}
    pictures = {"docs/demo.png", "docs/ilk_fig1.png", "docs/drifting_streams.png"}
    pictures |= {f"docs/explain_{name}.png" for name in ("digit", "alert", "meter")} | {"docs/theory_regret.png"}
    pictures |= {f"docs/video_{name}.png" for name in ("boats", "person", "clouds")}
    pictures |= {"docs/server.png"}
    assert binary <= pictures
    assert all((ROOT / picture).stat().st_size < 300_000 for picture in pictures)


# --- ./run ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The script as a module, with another folder for its environment and an installation that is only counted."""
    loader = importlib.machinery.SourceFileLoader("run_script", str(ROOT / "run"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_script", loader))
    loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "STAMP", tmp_path / ".venv" / "stamp")
    monkeypatch.setattr(module, "PYTHON", tmp_path / ".venv" / "python")
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    return module


@pytest.fixture
def installed(run, monkeypatch):
    """Counts installations; each leaves an environment behind."""
    count = []

    def with_pip():
        run.VENV.mkdir(exist_ok=True)
        run.PYTHON.touch()
        count.append(1)
        return True

    monkeypatch.setattr(run, "with_pip", with_pip)
    return count


def test_run_installs_once_until_the_recipe_changes(run, installed, capsys):
    run.prepare()
    run.prepare()
    assert len(installed) == 1
    (run.ROOT / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    run.prepare()
    assert len(installed) == 2
    run.PYTHON.unlink()
    run.prepare()
    assert len(installed) == 3
    assert all(line.startswith("run: install") for line in capsys.readouterr().err.splitlines())


def test_run_installs_again_after_a_failure(run, installed, monkeypatch, capsys):
    works = run.with_pip
    monkeypatch.setattr(run, "with_pip", lambda: False)
    with pytest.raises(SystemExit):
        run.prepare()
    assert "failed" in capsys.readouterr().err
    monkeypatch.setattr(run, "with_pip", works)
    run.prepare()
    assert len(installed) == 1


def test_run_falls_back_to_pip_when_uv_fails(run, installed, monkeypatch):
    monkeypatch.setattr(run.shutil, "which", lambda name: "uv" if name == "uv" else None)
    monkeypatch.setattr(run.subprocess, "call", lambda command, **options: 1)
    run.prepare()
    assert len(installed) == 1


def test_run_names_the_package_that_makes_environments(run, monkeypatch, capsys):
    monkeypatch.setattr(run, "quiet", lambda *command: False)
    assert not run.with_pip()
    assert "python3-venv" in capsys.readouterr().err


def test_run_fills_a_bare_environment_with_the_pip_of_the_system(run, monkeypatch):
    """Debian without ensurepip: `venv` fails, `venv --without-pip` and `pip --python` work."""
    called = []
    monkeypatch.setattr(run, "quiet", lambda *command: "--without-pip" in command or "pip" in command)
    monkeypatch.setattr(run.subprocess, "call", lambda command, **options: called.append(command) or 0)
    assert run.with_pip()
    assert called[0][1:5] == ["-m", "pip", "--python", str(run.PYTHON)]


def test_run_refuses_a_python_that_onkel_does_not_support(run, monkeypatch, capsys):
    monkeypatch.setattr(run.sys, "version_info", (3, 9, 1))
    with pytest.raises(SystemExit):
        run.base_python()
    assert "3.11 to 3.14" in capsys.readouterr().err
    monkeypatch.setattr(run.shutil, "which", lambda name: f"found-{name}" if name == "python3.12" else None)
    assert run.base_python() == "found-python3.12"


def test_run_agrees_with_the_project_about_python(run):
    low, high = re.findall(r"3\.(\d+)", PROJECT["project"]["requires-python"])
    assert ((3, int(low)), (3, int(high) - 1)) == (run.OLDEST, run.NEWEST)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["demo", "--trials", "2"], ["-m", "onkel.commands.demo", "--trials", "2"]),
        (["test", "tests/x.py"], ["-m", "pytest", "tests/x.py"]),
        (["test", "--all", "-x"], ["-m", "pytest", "-m", "", "-x"]),
        (["bench", "--quick"], ["-m", "onkel.cli", "bench", "--quick"]),
    ],
)
def test_run_calls(run, installed, monkeypatch, arguments, expected):
    called = []
    monkeypatch.setattr(run.subprocess, "call", lambda command, **options: called.append(command) or 3)
    assert run.main(arguments) == 3
    assert called == [[str(run.PYTHON), *expected]]


@pytest.mark.parametrize("failing", ["ruff", "mypy", "lint-imports", "pytest", None])
def test_run_test_runs_every_check_and_fails_if_one_does(run, installed, monkeypatch, failing, capsys):
    called = []

    def call(command, **options):
        called.append(command)
        return int(any(failing == Path(part).name for part in command))

    monkeypatch.setattr(run.subprocess, "call", call)
    assert run.main(["test"]) == (failing is not None)
    assert len(called) == 4
    assert ("FAILED" in capsys.readouterr().err) == (failing is not None)
