"""The command `onkel`: what the library does, from a terminal.

A command's module is imported only when that command is asked for, so that help is fast and an extra that is not installed is
missed by its own command alone.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import onkel
from onkel.terminal.extras import MissingExtra
from onkel.terminal.progress import say

# command: the module whose add_parser(subparsers) mounts it, and its line in the list of commands
COMMANDS = {
    "run": ("onkel.commands.run", "learn a table: predict each row, then learn it"),
    "predict": ("onkel.commands.predict", "say what a model thinks of the rows of a table"),
    "info": ("onkel.commands.info", "tell what a model file holds"),
    "verify": ("onkel.commands.verify", "check the certificate of an exact forgetting against a model"),
    "demo": ("onkel.commands.demo", "seven algorithms on a drifting stream: a table and a figure"),
    "reproduce": ("onkel.experiments.cli", "run the experiments of the papers and say, figure by figure, what holds"),
    "data": ("onkel.experiments.cli", "list the data sets: present or not, size, source, licence"),
    "video": ("onkel.video.cli", "find what moves in a video"),
    "bench": ("onkel.bench.cli", "measure onkel and its peers"),
    "serve": ("onkel.commands.serve", "models over HTTP that learn from every example, with a page to watch them"),
    "keys": ("onkel.commands.serve", "who may use a server: add, remove and list keys"),
    "replay": ("onkel.commands.serve", "make a server's model again from its log, as it was after N examples"),
    "completion": ("onkel.commands.completion", "print a script that completes onkel's commands in your shell"),
}

EXAMPLES = """
examples
  onkel demo
  onkel run prices.csv --target up
  onkel info prices.onkel
  eval "$(onkel completion bash)"

`onkel COMMAND --help` tells more.
"""


class Parser(argparse.ArgumentParser):
    """argparse's, which names the nearest option where one is misspelt."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:  # type: ignore[override]
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            known = _options(self, found)
            near = [difflib.get_close_matches(word.partition("=")[0], known, 1) for word in unknown]
            guesses = "".join(f"; did you mean {guess[0]}?" for guess in near[:1] if guess)
            self.error(f"unknown: {' '.join(unknown)}{guesses}")
        return found

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        say(f"{self.prog}: error", message)
        self.exit(2)


def _options(parser: argparse.ArgumentParser, found: argparse.Namespace) -> list[str]:
    """What the command that was asked for could have been given."""
    inner = getattr(found, "command_parser", parser)
    return [word for word in inner._option_string_actions if word.startswith("--")]


def main(argv: Sequence[str] | None = None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        if argv[:2] == ["video", "eval"]:  # of its own, so that each has the help of its own options
            return int(import_module("onkel.video.cli").main(argv[1:]))
        asked = argv[0] if argv else None
        if asked is None:
            parser().print_help()
            return 0
        if not asked.startswith("-") and asked not in COMMANDS:
            return _unknown(asked)
        arguments = parser(asked).parse_args(argv)
        status = int(arguments.run(arguments) or 0)
        sys.stdout.flush()
        return status
    except MissingExtra as missing:
        say("onkel", missing)
        return 1
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return 130


def _unknown(asked: str) -> int:
    near = difflib.get_close_matches(asked, COMMANDS, 1)
    guess = f"did you mean `onkel {near[0]}`?" if near else f"there are {', '.join(COMMANDS)}"
    print("usage: onkel COMMAND ...", file=sys.stderr)
    say("onkel: error", f"there is no command {asked!r}; {guess}")
    return 2


def parser(asked: str | None = None, everything: bool = False) -> argparse.ArgumentParser:
    """The whole command line; only the command ``asked`` is filled with its options, or all with ``everything``."""
    whole = Parser(
        prog="onkel",
        description="Online kernel learning for streams that drift.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", "-V", action="version", version=f"onkel {onkel.__version__}")
    subparsers = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)
    wanted = COMMANDS.get(asked or "", ("", ""))[0]
    for name, (module, line) in COMMANDS.items():
        if name in subparsers.choices:
            continue
        if everything or module == wanted:
            import_module(module).add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=line)
    if asked in subparsers.choices:
        whole.set_defaults(command_parser=subparsers.choices[asked])
    return whole


if __name__ == "__main__":
    sys.exit(main())
