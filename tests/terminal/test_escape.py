"""What somebody else wrote arrives as the text that it is, and does nothing else."""

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onkel.terminal.escape import for_cell, for_html, for_shell, for_terminal

TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=20)


@given(st.text(max_size=50))
def test_nothing_but_what_prints_reaches_a_terminal(text):
    assert for_terminal(text).isprintable()
    assert for_terminal(text, lines=True).replace("\n", "").isprintable()
    assert not set(for_html(text)) & set("<>\"'")


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_a_quoted_word_is_that_word_and_shows_harmlessly():
    words = ["größe", "\x9b31m", "*", "~", "--x", "\u202etxt.exe", "\udcff"]
    words += ["a b", "it's", "x\x1b[2J", "two\nlines", '`rm` $HOME \\ "']
    for word in words:
        quoted = for_shell(word)
        assert quoted.isprintable()
        shown = subprocess.run(["bash", "-c", f"printf %s {quoted}"], capture_output=True, env={"LC_ALL": "C.UTF-8"}).stdout
        assert shown == word.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_cell_computes_nothing(text):
    assert for_cell(text) == f"'{text}"


@given(st.one_of(st.integers(), st.floats(), st.none(), st.floats().map(str), st.integers().map(str)))
def test_numbers_stay_numbers(value):
    assert for_cell(value) is value
