"""The command line as a whole: its manners on a terminal and in a pipe, its help."""

import os
import pty
import subprocess
import sys

import pytest

import onkel
from onkel import cli
from onkel.commands.tables import BLOCK
from tests.commands.support import QUICK, ROOT, as_csv, stream

# --- manners ----------------------------------------------------------------------------------------------------------------------


def test_quiet_when_piped_and_lively_on_a_terminal(folder):
    as_csv(folder / "a.csv", *stream(3 * BLOCK))
    command = [sys.executable, "-m", "onkel", "run", "a.csv", "--target", "label", *QUICK, "--no-figure"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    piped = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert piped.returncode == 0
    assert not [line for line in piped.stderr.splitlines() if " over the last " not in line]  # now and then, if it takes long
    assert "\x1b" not in piped.stderr
    assert "\r" not in piped.stderr
    assert "error 0." in piped.stdout
    leader, follower = pty.openpty()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=follower, env=environment, check=True)
    shown = os.read(leader, 100_000).decode()
    os.close(leader)
    os.close(follower)
    assert "rows" in shown
    assert "/s, error 0." in shown
    assert "%" in shown
    quiet = subprocess.run([*command, "--quiet"], capture_output=True, text=True, env=environment)
    assert (quiet.stdout, quiet.stderr) == ("", "")


def test_the_figure(folder):
    as_csv(folder / "a.csv", *stream(500))
    assert cli.main(["run", "a.csv", "--target", "label", *QUICK]) == 0
    assert (folder / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_reader_that_leaves_early(folder):
    learner = onkel.silk(onkel.RBF(), onkel.Hinge())
    onkel.save((learner, learner.init()), folder / "m.onkel")
    result = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m onkel info m.onkel --json | head -c 1; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert result.stdout == "{"
    assert "Traceback" not in result.stderr


def test_help_is_fast_and_complete():
    """Nothing heavy is imported for it."""
    code = (
        "import sys; from onkel import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'numba', 'sklearn', 'matplotlib', 'cv2', 'river'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert shown.returncode == 0, shown.stderr
    for name in cli.COMMANDS:
        assert f"\n    {name} " in shown.stdout or f"\n    {name}\n" in shown.stdout


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_command_has_help(name, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([name, "--help"])
    assert stop.value.code == 0
    assert f"usage: onkel {name}" in capsys.readouterr().out


def test_run_help_has_examples_and_exit_codes(capsys):
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    shown = capsys.readouterr().out
    assert shown.count("onkel run ") >= 5
    assert "exit status" in shown


def test_version(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"onkel {onkel.__version__}\n"


def test_a_bare_call_shows_the_help(capsys):
    assert cli.main([]) == 0
    assert "usage: onkel" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "guess"),
    [
        (["runn"], "`onkel run`"),
        (["vide"], "`onkel video`"),
        (["info", "x", "--jsn"], "--json"),
        (["run", "a", "--targt=y"], "--target"),
    ],
)
def test_a_typo_gets_a_guess(words, guess, capsys):
    try:
        status = cli.main(words)
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    assert f"did you mean {guess}?" in capsys.readouterr().err
