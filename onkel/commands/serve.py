"""`onkel serve`, `onkel keys` and `onkel replay`: a server that never stops learning, who may use it, and its past."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import socket
import sys
from pathlib import Path
from typing import Any

from onkel.terminal.arguments import natural, positive, size, whole
from onkel.terminal.extras import need

LOOPBACK = ["localhost", "127.0.0.1", "::1"]


def add_parser(subparsers: Any) -> None:
    serve = subparsers.add_parser(
        "serve",
        help="models over HTTP that learn from every example, with a page to watch them",
        description="Serves the models of a folder over HTTP: predict, learn, late labels, shadows, time travel, forgetting. An "
        "answer is sent when what it says is on the disk. The page at the address shows every model live; /docs lists the API.",
        epilog="examples\n  onkel serve models\n  onkel keys add me --scope admin --keys keys.json\n"
        "  onkel serve models --host 0.0.0.0 --keys keys.json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    serve.add_argument("folder", metavar="DIR", type=Path, help="where models and their log live; made if need be")
    serve.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1; any other needs --keys")
    serve.add_argument("--port", type=int, default=8700, help="default: 8700; 0 takes a free one")
    serve.add_argument("--keys", metavar="FILE", type=Path, help="who may: a file that `onkel keys` writes")
    serve.add_argument(
        "--expire", metavar="HOURS", type=positive, default=168.0, help="how long a prediction waits for its label; default: 168"
    )
    serve.add_argument(
        "--keep-log",
        metavar="N",
        type=int,
        default=1_000_000,
        help="examples of each stream that one can go back to; default: 1000000",
    )
    serve.add_argument(
        "--memory", metavar="SIZE", type=size, default=1 << 30, help="models in memory, the others wait on the disk; default: 1G"
    )
    serve.add_argument("--max-models", metavar="N", type=whole, default=1000, help="default: 1000")
    serve.add_argument("--max-body", metavar="SIZE", type=size, default=16 << 20, help="of a request; default: 16M")
    serve.add_argument(
        "--allow-origin", metavar="URL", action="append", default=[], help="another page that may ask, e.g. https://app.example"
    )
    serve.add_argument("--log", action="store_true", help="a line of JSON for each request, on standard error")
    serve.set_defaults(run=run_serve)

    keys = subparsers.add_parser(
        "keys",
        help="who may use a server: add, remove and list keys",
        description="Keeps a file of keys for `onkel serve --keys`. Only digests are stored.",
    )
    verbs = keys.add_subparsers(metavar="VERB", required=True)
    for verb, said in (("add", "make a key; it is shown once"), ("remove", "take a key back"), ("list", "names and scopes")):
        one = verbs.add_parser(verb, help=said)
        if verb != "list":
            one.add_argument("name", metavar="NAME")
        if verb == "add":
            one.add_argument("--scope", choices=("read", "learn", "admin"), default="learn", help="default: learn")
        one.add_argument("--keys", metavar="FILE", type=Path, default=Path("onkel-keys.json"), help="default: onkel-keys.json")
        one.set_defaults(run=run_keys, verb=verb)

    replay = subparsers.add_parser(
        "replay",
        help="make a server's model again from its log, as it was after N examples",
        description="Learns the log of a model again, from the newest snapshot before step N, and "
        "writes the same bytes as the server's state?step=N. For a folder whose server is stopped or running.",
    )
    replay.add_argument("folder", metavar="DIR", type=Path)
    replay.add_argument("name", metavar="NAME")
    replay.add_argument("--to", metavar="N", type=natural, help="after so many examples; default: all")
    replay.add_argument("--from-start", action="store_true", help="from the first example on, snapshots left aside")
    replay.add_argument("--out", metavar="FILE", type=Path, required=True)
    replay.set_defaults(run=run_replay)


def run_serve(arguments: argparse.Namespace) -> int:
    need("onkel serve", "fastapi", "uvicorn", "prometheus_client")
    import uvicorn

    if not _is_loopback(arguments.host) and arguments.keys is None:
        return _fail(
            f"--host {arguments.host} lets others in; name the keys that they need with --keys (onkel keys add NAME makes one), "
            "or stay on 127.0.0.1"
        )
    from onkel.server.app import Options, make

    origins = [origin.rstrip("/") for origin in arguments.allow_origin]
    options = Options(
        arguments.folder,
        arguments.keys,
        3600.0 * arguments.expire,
        arguments.keep_log,
        arguments.memory,
        arguments.max_models,
        arguments.max_body,
        origins=origins,
        hosts=[*LOOPBACK, arguments.host] if arguments.keys is None else [],
    )
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    if arguments.log:
        logging.getLogger("onkel.access").setLevel(logging.INFO)
    try:
        family = socket.AF_INET6 if ":" in arguments.host else socket.AF_INET
        listening = socket.create_server((arguments.host, arguments.port), family=family)
    except (OSError, OverflowError) as error:
        return _fail(f"cannot listen on {arguments.host}:{arguments.port}: {error}")
    try:
        app = make(options)
    except (OSError, ValueError) as error:
        return _fail(str(error))

    class Stopping(uvicorn.Server):
        async def shutdown(self, sockets: Any = None) -> None:
            app.state.server.hub.close()  # listeners would wait for ever
            await super().shutdown(sockets)

    port = listening.getsockname()[1]
    shown = f"[{arguments.host}]" if ":" in arguments.host else "127.0.0.1" if arguments.host == "0.0.0.0" else arguments.host
    address, key = f"http://{shown}:{port}", ' -H "Authorization: Bearer $KEY"' if arguments.keys else ""
    print(f"onkel serves {arguments.folder} at {address}   (API: {address}/docs; Ctrl-C stops)", flush=True)
    print(
        f"try   curl -X PUT {address}/v1/models/mine{key} -H 'Content-Type: application/json' -d '{{\"task\": \"classes\"}}'",
        flush=True,
    )
    Stopping(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=20,
            timeout_keep_alive=30,
            limit_concurrency=1000,
            ws="none",
            server_header=False,
        )
    ).run(sockets=[listening])
    return 0


def run_keys(arguments: argparse.Namespace) -> int:
    from onkel.server import keys

    try:
        if arguments.verb == "add":
            key = keys.add(arguments.keys, arguments.name, arguments.scope)
            print(
                f"{key}\nthe key of {arguments.name!r} ({arguments.scope}); {arguments.keys} keeps its digest only", file=sys.stdout
            )
        elif arguments.verb == "remove":
            keys.remove(arguments.keys, arguments.name)
        else:
            for name, (scope, _) in keys.Keys(arguments.keys).known.items():
                print(f"{scope:<6} {name}")
    except (OSError, ValueError) as error:
        return _fail(str(error), "keys")
    return 0


def run_replay(arguments: argparse.Namespace) -> int:
    from onkel.saved import atomic
    from onkel.server.errors import Refused
    from onkel.server.journal import Journal
    from onkel.server.shelf import entry, rebuilt

    if not (arguments.folder / "onkel.sqlite").is_file():
        return _fail(f"{arguments.folder} holds no onkel.sqlite: it is no folder of `onkel serve`", "replay")
    journal = Journal.to_read(arguments.folder)
    try:
        found = {row["name"]: entry(row) for row in journal.models()}
        if arguments.name not in found:
            return _fail(f"there is no model {arguments.name!r}; there are {', '.join(found) or 'none'}", "replay")
        served = found[arguments.name]
        steps = served.steps if arguments.to is None else arguments.to
        if not 0 <= steps <= served.steps:
            return _fail(f"--to must be from 0 to {served.steps}, how far {arguments.name!r} is; got {steps}", "replay")
        made = rebuilt(journal, served, served.begins + steps, from_start=arguments.from_start)
        atomic.write(arguments.out, made.file())
        print(f"{arguments.out}: {arguments.name} after {made.steps} examples, hash {made.chain.hex()}")
        return 0
    except (Refused, OSError) as error:
        return _fail(str(error), "replay")
    finally:
        journal.close()


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _fail(why: str, command: str = "serve") -> int:
    print(f"onkel {command}: {why}", file=sys.stderr)
    return 2
