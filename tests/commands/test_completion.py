"""The scripts that complete commands know what the parser knows."""

import shutil
import subprocess

import pytest
import shtab

from onkel import cli
from onkel.commands import completion


@pytest.fixture(scope="module")
def scripts():
    """By shell; made once, since all commands are imported for them."""
    whole = cli.parser(everything=True)
    return {shell: shtab.complete(whole, shell) for shell in shtab.SUPPORTED_SHELLS}


def complete(script, *words):
    """What bash would offer for the last word."""
    ask = (
        f"compopt() {{ :; }}\nCOMP_WORDS=(onkel {' '.join(repr(word) for word in words)}); COMP_CWORD={len(words)}\n"
        "_shtab_onkel; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    result = subprocess.run(["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_bash_completes(scripts):
    script = scripts["bash"]
    assert complete(script, "ru") == ["run"]
    assert complete(script, "run", "--mod") == ["--model"]
    assert complete(script, "run", "--model", "s") == ["silk", "svmd"]
    assert sorted(complete(script, "run", "--on-error", "")) == ["skip", "stop"]
    assert complete(script, "completion", "f") == ["fish"]


def test_files_are_completed_where_files_are_meant(capsys, tmp_path, monkeypatch):
    (tmp_path / "prices.csv").touch()
    monkeypatch.chdir(tmp_path)
    assert cli.main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert "prices.csv" in complete(script, "run", "pri")
    assert complete(script, "run", "a.csv", "--target", "pri") == []


def test_every_shell_knows_every_option(scripts):
    every = [option for action in completion.actions(cli.parser(everything=True)) for option in action.option_strings]
    assert len(every) > 50
    for shell in ("bash", "zsh", "fish"):
        assert not [option for option in every if option.lstrip("-") not in scripts[shell]]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_parse(scripts, shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(scripts[shell])
    assert subprocess.run([shell, "-n", tmp_path / "script"]).returncode == 0
