"""What people who come from scikit-learn expect to find: types, attributes under the names of SVC and SVR, weights of classes."""

import ast
from pathlib import Path

import pytest

import onkel

PACKAGE = Path(onkel.__file__).parent


# --- types ------------------------------------------------------------------------------------------------------------------------


def test_type_checkers_read_the_names_that_are_there():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    found = {
        (item.module, name.name, name.asname) for block in blocks for item in block.body for name in item.names
    }
    assert found == {(f"onkel.{module}", name, name) for module, names in onkel._HOME.items() for name in names}


def test_the_types_are_announced_and_travel_in_the_wheel():
    assert (PACKAGE / "py.typed").read_text() == ""
    wheel = (PACKAGE.parent / "pyproject.toml").read_text().partition("[tool.hatch.build.targets.wheel]")[2].partition("[tool.")[0]
    assert wheel.strip() == 'packages = ["onkel"]'  # everything in the package, nothing left out


@pytest.mark.slow
def test_a_type_checker_finds_misuse(tmp_path):
    api = pytest.importorskip("mypy.api")
    user = tmp_path / "user.py"
    user.write_text(
        "import onkel\n"
        "model = onkel.KernelClassifier(budget=64)\n"
        'onkel.KernelClassifier(budget="lots")\n'
        "onkel.KernelClasifier()\n"
    )
    options = ["--strict", "--follow-imports=silent", f"--config-file={tmp_path / 'none.ini'}", f"--cache-dir={tmp_path}"]
    (tmp_path / "none.ini").write_text("[mypy]\n")
    out, _, failed = api.run([*options, str(user)])
    told = [line.partition("user.py:")[2] for line in out.splitlines() if "user.py:" in line]
    assert failed
    assert [line.partition(" error: ")[2].partition(" ")[0] for line in told] == ["Argument", "Module"], out
    assert [line.partition(":")[0] for line in told] == ["3", "4"], out
