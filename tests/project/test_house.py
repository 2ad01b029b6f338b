"""The house keeps its shape: small files, few at the top, one place that knows Numba, a core that is read in an hour."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "onkel").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def lines(file):
    return len(file.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize(("files", "most"), [(SOURCES, 450), (TESTS, 500)], ids=["modules", "tests"])
def test_files_are_short(files, most):
    assert {str(file.relative_to(ROOT)): lines(file) for file in files if lines(file) > most} == {}


def test_numba_is_named_in_one_room():
    """Elsewhere it would compile with other options and a cache that does not know the rest of the core."""
    named = re.compile(r"\bnumba\.(njit|jit)\b|from numba import .*\b(njit|jit|vectorize|guvectorize)\b|@(njit|jit)\b")
    found = [file for file in SOURCES if named.search(file.read_text())]
    machine = ROOT / "onkel" / "core" / "machine"
    assert [str(file.relative_to(ROOT)) for file in found if machine not in file.parents] == []


def test_the_core_is_read_in_an_hour():
    """The eight files that its docstring names first, in their order."""
    says = ast.get_docstring(ast.parse((ROOT / "onkel" / "core" / "__init__.py").read_text()))
    named = re.search(r"To read it in an hour: ([^.]*)\.", says).group(1)
    files = [ROOT / "onkel" / "core" / f"{name}.py" for name in re.findall(r"[\w/]+", named)]
    assert len(files) == 8
    assert sum(map(lines, files)) <= 1400


LONG = {  # more than 80 lines or 12 arguments, and why
    "core/loop/dispatch.py": "one function of a loss with all that the step knows: tuples would be taken apart at each call",
    "core/loop/evict.py": "likewise",
    "core/loop/step.py": "likewise",
    "core/recipes.py": "what a caller may choose, by name",
    "core/portfolio/classes.py": "one example through all members, in order",
    "core/portfolio/numbers.py": "likewise",
    "reasons/ledger.py": "one step of the loop again, with all that it knows",
    "server/app.py": "routes, one after the other",
    "video/cpu/fold.py": "one pixel, in order",
    "video/cpu/texture.py": "likewise",
    "video/settings.py": "what a caller may choose, by name",
    "video/subtractor.py": "what a caller may choose, by name",
}


def test_long_functions_are_the_exception():
    found = set()
    for file in SOURCES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = len(node.args.args) + len(node.args.kwonlyargs)
                if node.end_lineno - node.lineno >= 80 or arguments > 12:
                    found.add(str(file.relative_to(ROOT / "onkel")))
    assert found <= set(LONG)
