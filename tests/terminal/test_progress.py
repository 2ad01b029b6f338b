"""A line that is rewritten on a terminal only, and messages that nothing untrusted can forge."""

import io
from types import SimpleNamespace

import pytest

from onkel.terminal import progress
from onkel.terminal.progress import FRESH, Progress, over, say


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    shown = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=shown))  # pytest puts its own back before the test begins
    return shown


def test_a_terminal_sees_one_line_with_a_bar(terminal):
    assert list(over("abc", "letters")) == list("abc")
    assert "0 of 3 letters" in terminal.getvalue()
    assert terminal.getvalue().endswith(FRESH)
    assert "\n" not in terminal.getvalue()


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("NO_COLOR", "1")])
def test_plain_lines_and_few_where_nothing_can_be_rewritten(terminal, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Progress(first="compiling") as shown:
        for second in range(31):
            now[0] = float(second)
            shown.show(f"row {second}", second / 40)
    say("onkel run", "done")
    *lines, last = terminal.getvalue().splitlines()
    assert [line.split("; ")[1] for line in lines] == ["row 10", "row 20", "row 30"]
    assert "25 %, 0:30 left" in lines[0]
    assert last == "onkel run: done"
    assert "\x1b" not in terminal.getvalue()
    assert "\r" not in terminal.getvalue()


def test_quiet_says_nothing(terminal):
    with Progress(quiet=True, first="compiling") as shown:
        shown.show("a row")
    assert terminal.getvalue() == ""


def test_messages_and_progress_are_harmless(terminal):
    with Progress() as shown:
        shown.show("of \x1b[31mred\nforged")
    say("onkel run", "no column '\x1b]0;title\x07' \u202e\nsecond line")
    assert "\x1b" not in terminal.getvalue().replace(FRESH, "")
    assert "\u202e" not in terminal.getvalue()
    assert terminal.getvalue().count("\n") == 2
