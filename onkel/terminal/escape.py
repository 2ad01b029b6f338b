"""Text that somebody else wrote, made harmless for where it goes: a terminal, a shell, a page, a cell of a table.

Names of columns, classes, files and the headers of model files come from outside.  In one of them may stand what moves the
cursor, changes colours, reverses the order of reading or ends a quotation.
"""

from __future__ import annotations

import html
import re
import shlex
from typing import Any

FORMULA = re.compile(r"[=+\-@\t\r]")  # what a spreadsheet takes for the beginning of a formula


def for_terminal(text: Any, lines: bool = False) -> str:
    r"""The text with everything that does not print written as Python writes it; ``lines`` leaves the ends of lines.

    >>> for_terminal("red \x1b[31m, reversed \u202e, größe")
    'red \\x1b[31m, reversed \\u202e, größe'
    """
    return "".join(c if c.isprintable() or (lines and c == "\n") else _spelled(c) for c in str(text))


def _spelled(c: str) -> str:
    return ascii(c)[1:-1]


def for_shell(word: Any) -> str:
    r"""One word of a command that may be copied into bash, zsh or ksh, and means just this text there.

    >>> for_shell("a b.csv"), for_shell("it's"), for_shell("x\x1b[2J;rm")
    ("'a b.csv'", '\'it\'"\'"\'s\'', "$'x\\x1b[2J;rm'")
    """
    text = str(word)
    if text.isprintable():
        return shlex.quote(text)
    spelled = (c if c.isprintable() and c not in "\\'" else _in_dollars(c) for c in text)
    return f"$'{''.join(spelled)}'"


def option(name: str, value: Any) -> str:
    """An option and its value, for the shell.

    >>> option("--drop", "a b"), option("--resume", "-1.onkel")
    ("--drop 'a b'", '--resume=-1.onkel')
    """
    return f"{name}{'=' if str(value).startswith('-') else ' '}{for_shell(value)}"


def _in_dollars(c: str) -> str:
    if c in "\\'":
        return "\\" + c
    if 0xDC80 <= ord(c) <= 0xDCFF:  # a byte of a file name that is no text
        return f"\\x{ord(c) - 0xDC00:02x}"
    return f"\\x{ord(c):02x}" if ord(c) < 0x80 else f"\\U{ord(c):08x}"


def for_html(text: Any) -> str:
    """The text for a page, in an attribute too.

    >>> for_html("<b title='1'>")
    '&lt;b title=&#x27;1&#x27;&gt;'
    """
    return html.escape(for_terminal(text, lines=True), quote=True)


def for_cell(value: Any) -> Any:
    """A cell of a table that may be opened in a spreadsheet: text that it would compute gets an apostrophe; numbers stay numbers.

    >>> for_cell("=1+1"), for_cell(-1.5), for_cell("-1.5"), for_cell("up")
    ("'=1+1", -1.5, '-1.5', 'up')
    """
    if not isinstance(value, str) or not FORMULA.match(value):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
