"""The command `onkel`: what the library does, from a terminal.

A command's module is imported only when that command is asked for, so that help is fast and an extra that is not installed is
missed by its own command alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import onkel

# command: the module whose add_parser(subparsers) mounts it, and the line in the list of commands
COMMANDS = {
    "run": ("onkel.commands.run", "learn a CSV, Parquet or NDJSON stream: predict each row, then learn it"),
    "info": ("onkel.cli", "tell what a model file holds"),
    "demo": ("onkel.commands.demo", "seven algorithms on a drifting stream: a table and a figure"),
    "reproduce": ("onkel.experiments.cli", "run the experiments of the papers and say, figure by figure, what holds"),
    "data": ("onkel.experiments.cli", "list the data sets: present or not, size, source, licence"),
    "video": ("onkel.video.cli", "find what moves in a video"),
    "bench": ("onkel.bench.cli", "measure onkel and its peers"),
    "completion": ("onkel.commands.completion", "print a completion script for bash, zsh or fish"),
}

EXAMPLES = """
examples
  onkel demo
  onkel run prices.csv --target up
  onkel info prices.onkel
  eval "$(onkel completion bash)"

`onkel COMMAND --help` tells more.
"""


def main(argv: Sequence[str] | None = None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        if argv[:1] == ["demo"]:
            return int(import_module("onkel.commands.demo").main(argv[1:]))
        arguments = parser(argv[0] if argv else None).parse_args(argv)
        status = int(arguments.run(arguments) or 0)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return 130


def parser(asked: str | None = None, everything: bool = False) -> argparse.ArgumentParser:
    """The whole command line; only the command ``asked`` is filled with its options, or all with ``everything``."""
    whole = argparse.ArgumentParser(
        prog="onkel",
        description="Online kernel learning for streams that drift.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=f"onkel {onkel.__version__}")
    subparsers = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)
    wanted = COMMANDS.get(asked or "", ("", ""))[0]
    for name, (module, line) in COMMANDS.items():
        if name in subparsers.choices or not _exists(module):
            continue
        if (everything or module == wanted) and name != "demo":
            _add(module, subparsers)
        else:
            subparsers.add_parser(name, help=line)
    return whole


def _exists(module: str) -> bool:
    """By its file: looking for a module the usual way would import the packages around it."""
    return Path(__file__).parent.joinpath(*module.split(".")[1:]).with_suffix(".py").exists()


def _add(module: str, subparsers: Any) -> None:
    try:
        (add_parser if module == __name__ else import_module(module).add_parser)(subparsers)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] == "onkel":
            raise
        extras = {"cv2": "video", "av": "video", "matplotlib": "plot", "river": "river"}
        extra = extras.get((missing.name or "").partition(".")[0])
        how = f"pip install 'onkel[{extra}]'" if extra else f"pip install {missing.name}"
        raise SystemExit(f"onkel: this command needs {missing.name}, which is not installed: {how}") from None


# --- onkel info ------------------------------------------------------------------------------------------------------------------


def add_parser(subparsers: Any) -> None:
    info = subparsers.add_parser(
        "info",
        help=COMMANDS["info"][1],
        description="Tells what a model file holds. Only its header is read; no model is made of it, no code is run.",
        epilog="examples\n  onkel info prices.onkel\n  onkel info prices.onkel --json | jq .model",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    info.add_argument("file", metavar="FILE", help="a file that onkel.save or `onkel run` wrote")
    info.add_argument("--json", action="store_true", help="the header as it is")
    info.set_defaults(run=show)


def show(arguments: argparse.Namespace) -> int:
    from onkel.persist import BadFile, header

    try:
        head = header(arguments.file)
    except (BadFile, OSError) as error:
        print(f"onkel info: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps(head, indent=1))
        return 0
    print(f"{arguments.file}: {head['kind']}, format {head['format']}, written by onkel {head['onkel']}")
    for name, value in _facts(head):
        print(f"  {name:<12} {value}")
    return 0


def _facts(head: dict[str, Any]) -> list[tuple[str, str]]:
    """What a person wants to know, from wherever in the header it stands."""
    facts = []
    model = head["model"]
    inner = model.get("header", {}) if isinstance(model, dict) else {}
    run = inner if "tally" in inner else {}
    if run:
        facts += [("task", run["task"]), ("target", run["target"]), ("features", _some(run["features"]))]
        facts += [("learned", f"{run['tally']['rows']} rows of {run['source'].get('name')}, {run['bad']} bad ones left out")]
    if run:
        inner = inner["model"]["header"]
    if "params" in inner:
        facts += [("parameters", _some(f"{name}={_short(value)}" for name, value in inner["params"].items() if value is not None))]
        inner = inner.get("model") or {}
        facts += [("classes", _some(map(_short, inner["classes"])))] if inner.get("classes") else []
    learner = model.get("learner") if isinstance(model, dict) else None
    if learner:
        facts += [(name, _short(learner[name])) for name in ("kernel", "loss", "step", "budget")]
    state = model.get("state") if learner else inner.get("state")
    if state:
        numbers = state["numbers"]
        width = {0: "none yet", -1: "objects"}.get(state["width"], state["width"])
        facts += [("examples", f"{numbers['t']:.0f}"), ("points", f"{numbers['n']:.0f}"), ("width", width)]
    size = sum(_bytes(about) for about in head["arrays"].values())
    return [*facts, ("arrays", f"{len(head['arrays'])}, {size} bytes")]


def _bytes(about: dict[str, Any]) -> int:
    count = int("".join(c for c in about["dtype"].partition("[")[0] if c.isdigit()) or 8)
    for length in about["shape"]:
        count *= length
    return count * 4 if "U" in about["dtype"] else count


def _some(items: Any, most: int = 16) -> str:
    listed = [str(item) for item in items]
    return ", ".join(listed[:most]) + (f", ... ({len(listed)} in all)" if len(listed) > most else "")


def _short(tree: Any) -> str:
    """A described part as one would write it in Python.

    >>> _short({"is": "RBF", "sigma": 1.0})
    'RBF(sigma=1.0)'
    """
    if not isinstance(tree, dict):
        return repr(tree)
    if tree.get("is") == "number":
        return repr(tree["value"])
    inside = ", ".join(f"{name}={_short(value)}" for name, value in tree.items() if name != "is" and value is not None)
    return f"{tree.get('is', '')}({inside})"


if __name__ == "__main__":
    sys.exit(main())
