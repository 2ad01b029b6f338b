"""`onkel completion SHELL`: a script that completes commands, options, their choices and file names.

shtab makes it from the parser itself, so it knows exactly what this version of onkel knows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import shtab

HOW = """
installing
  bash   eval "$(onkel completion bash)"                                       in ~/.bashrc
  zsh    eval "$(onkel completion zsh)"                                        in ~/.zshrc, after compinit
  fish   onkel completion fish > ~/.config/fish/completions/onkel.fish
  tcsh   onkel completion tcsh > ~/.onkel.tcsh                                  and `source ~/.onkel.tcsh` in ~/.tcshrc
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "completion",
        help="print a script that completes onkel's commands in your shell",
        description="Prints a script that completes onkel's commands, options, choices and file names.",
        epilog=HOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=sorted(shtab.SUPPORTED_SHELLS))
    parser.set_defaults(run=command)


def command(arguments: argparse.Namespace) -> int:
    from onkel.cli import parser

    whole = parser(everything=True)
    for action in actions(whole):
        if action.nargs != 0 and not action.choices:
            folder = str(action.metavar).startswith("DIR")
            if folder or action.type is Path or action.metavar in ("FILE", "STREAM", "MODEL", "TABLE", "INPUT"):
                action.complete = shtab.DIRECTORY if folder else shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(whole, arguments.shell))
    return 0


def actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Every option and argument, of the commands too."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from actions(inner)
