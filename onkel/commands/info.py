"""`onkel info`: what a model file holds, from its header alone; with --check the whole file is read."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from onkel.persist import BadFile, header, load
from onkel.terminal.escape import for_terminal
from onkel.terminal.progress import say

SHOWN = 16  # members of a list
DEEP = 12  # parts inside parts of a kernel


def add_parser(subparsers: Any) -> None:
    info = subparsers.add_parser(
        "info",
        help="tell what a model file holds",
        description="Tells what a model file holds. Only its header is read; no model is made of it, no code is run. --check reads "
        "and compares all of it, as onkel.load does.",
        epilog="examples\n  onkel info prices.onkel\n  onkel info prices.onkel --json | jq .model",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    info.add_argument("file", metavar="FILE", help="a file that onkel.save or `onkel run` wrote")
    info.add_argument("--json", action="store_true", help="the header as it is")
    info.add_argument("--check", action="store_true", help="read the whole file and say whether it is sound")
    info.set_defaults(run=show)


def show(arguments: argparse.Namespace) -> int:
    try:
        head = header(arguments.file)
    except BadFile as error:
        say("onkel info", error)
        return 1
    except OSError as error:
        say("onkel info", f"{arguments.file}: {error.strerror or error}")
        return 1
    if arguments.json:
        print(json.dumps(head, indent=1))
        return 0 if not arguments.check else check(arguments.file)
    print(for_terminal(f"{arguments.file}: {head['kind']}, format {head['format']}, written by onkel {head.get('onkel')}"))
    for name, value in facts(head):
        print(f"  {name:<12} {for_terminal(value)}")
    return 0 if not arguments.check else check(arguments.file)


def check(file: str) -> int:
    """Read everything, make the model, drop it again."""
    try:
        load(file)
    except BadFile as error:
        say("onkel info --check", error)
        return 1
    print("checked: every array and number of it is sound")
    return 0


def facts(head: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What a person wants to know, from wherever in the header it stands; what is odd or not there is left out."""
    model = at(head, "model")
    inner = at(model, "header")
    if isinstance(at(inner, "tally"), dict):
        yield "task", str(at(inner, "task"))
        yield "target", str(at(inner, "target"))
        yield "features", some(at(inner, "features"))
        yield "learned", f"{at(inner, 'tally', 'rows')} rows of {at(inner, 'source', 'name')}, {at(inner, 'bad')} bad ones left out"
        inner = at(inner, "model", "header")
    if isinstance(parameters := at(inner, "params"), dict):
        yield "parameters", some([f"{name}={spelled(value)}" for name, value in parameters.items() if value is not None])
        inner = at(inner, "model")
        if classes := at(inner, "classes"):
            yield (
                "classes",
                f"{len(classes)}: {some([spelled(name) for name in classes])}" if isinstance(classes, list) else str(classes),
            )
        if isinstance(gamma := at(inner, "gamma"), float):
            yield "gamma", f"{gamma:.6g}, settled"
    learner = at(model, "learner")
    if isinstance(learner, dict):
        yield from ((name, spelled(learner.get(name))) for name in ("kernel", "loss", "step", "budget"))
    state = at(model, "state") or at(inner, "state")
    if isinstance(numbers := at(state, "numbers"), dict):
        yield "examples", count(numbers.get("t"))
        yield "points", count(numbers.get("n"))
        width = at(state, "width")
        said = {0: "none seen yet", -1: "objects, for a kernel of their own"}
        yield "features", said.get(width, f"{width} numbers") if isinstance(width, int) else str(width)
    arrays = at(head, "arrays")
    if isinstance(arrays, dict):
        yield "memory", f"{sum(bytes_of(about) for about in arrays.values())} bytes in {len(arrays)} arrays"
    if isinstance(notes := at(head, "notes"), dict):
        for name, value in islice(notes.items(), SHOWN):
            yield "note", f"{name}: {spelled(value)}"


def at(tree: Any, *path: str) -> Any:
    """What stands there, None if nothing does."""
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def count(value: Any) -> str:
    value = at(value, "value") if isinstance(value, dict) else value
    return f"{value:.0f}" if isinstance(value, int | float) else spelled(value)


def bytes_of(about: Any) -> int:
    """How large an array is, by what the header says of it."""
    dtype, shape = at(about, "dtype"), at(about, "shape")
    if not isinstance(dtype, str) or not isinstance(shape, list) or not all(isinstance(length, int) for length in shape):
        return 0
    size = int("".join(c for c in dtype.partition("[")[0] if c in "0123456789")[:9] or 8)
    for length in shape:
        size *= length
    return size * 4 if "U" in dtype else size


def some(items: Any) -> str:
    if not isinstance(items, list):
        return spelled(items)
    more = f", ... ({len(items)} in all)" if len(items) > SHOWN else ""
    return ", ".join(map(str, islice(items, SHOWN))) + more


def spelled(tree: Any, depth: int = 0) -> str:
    """A described part as one would write it in Python.

    >>> spelled({"is": "RBF", "sigma": 1.0})
    'RBF(sigma=1.0)'
    """
    if not isinstance(tree, dict):
        text = repr(tree)
        return text if len(text) <= 200 else f"{text[:200]}..."
    if tree.get("is") == "number":
        return repr(tree.get("value"))
    if depth == DEEP:
        return "..."
    inside = [f"{name}={spelled(value, depth + 1)}" for name, value in tree.items() if name != "is" and value is not None]
    return f"{tree.get('is', '')}({some(inside)})"
