"""`onkel verify`: whether a model is what the certificate of an exact forgetting says it is."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from onkel.persist import BadFile, load
from onkel.reasons.unlearn import verify
from onkel.terminal.escape import for_terminal
from onkel.terminal.progress import say


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "verify",
        help="check the certificate of an exact forgetting against a model",
        description="Compares the digests in a certificate of onkel.unlearn (its to_dict() as JSON) with a saved model: "
        "the learner's description and every number of its state. Ends with 0 if they are the same, else with 1.",
        epilog="example\n  onkel verify forgotten.json model.onkel",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("certificate", metavar="CERTIFICATE", type=Path, help="a JSON file")
    parser.add_argument("model", metavar="MODEL", help="a file that onkel.save wrote")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        certificate = json.loads(arguments.certificate.read_text())
        model = load(arguments.model)
        held = model if isinstance(model, tuple) else (model, None)
        against = verify(certificate, *held)
    except (BadFile, ValueError, TypeError, AttributeError) as error:
        say("onkel verify", error)
        return 2
    except OSError as error:
        say("onkel verify", f"{error.filename}: {error.strerror or error}")
        return 2
    if against:
        print(for_terminal(f"{arguments.model} is not what the certificate says: {'; '.join(against)}"))
        return 1
    print(f"the certificate holds: {certificate['stay']} examples stay, {certificate['went']} went")
    return 0
