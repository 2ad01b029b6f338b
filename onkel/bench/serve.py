"""`onkel bench serve`: the server beside (a) a bare FastAPI route that answers a constant and (b) a River model behind FastAPI with
one sqlite commit for each call; in turn, each in a process of its own, asked over the loopback by one client.

Ratios are of requests, or rows, per second; the time of an fsync on this disk is printed beside them, since durable answers wait
for one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

CONNECTIONS = 16
FEATURES = 8

BARE = """
from fastapi import FastAPI, Request
import uvicorn, sys
app = FastAPI()
@app.post("/predict")
async def predict(request: Request):
    return {"prediction": 1}
uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
"""
RIVER = """
import json, sqlite3, sys
from fastapi import FastAPI, Request
from river import linear_model
import uvicorn
app, model = FastAPI(), linear_model.LogisticRegression()
db = sqlite3.connect(sys.argv[2], isolation_level=None, check_same_thread=False)
db.execute("pragma journal_mode=wal"); db.execute("pragma synchronous=full"); db.execute("create table log (row text)")
@app.post("/predict")
async def predict(request: Request):
    body = json.loads(await request.body())
    return [model.predict_one(dict(enumerate(row))) for row in body["rows"]]
@app.post("/learn")
async def learn(request: Request):
    body = json.loads(await request.body())
    told = []
    for row, label in zip(body["rows"], body["labels"]):
        x = dict(enumerate(row))
        told.append(model.predict_one(x))
        model.learn_one(x, label)
    db.execute("insert into log values (?)", (json.dumps(body),))
    return told
uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
"""


def report(arguments: argparse.Namespace) -> int:
    rounds, seconds = (3, 1.0) if arguments.quick else (7, 2.0)
    Path("results").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir="results") as folder, ExitStack() as running:
        ports = {name: running.enter_context(server(name, Path(folder))) for name in ("onkel", "bare", "river")}
        print(f"an fsync on this disk: {1e3 * fsync(Path(folder)):.2f} ms; {CONNECTIONS} connections, {FEATURES} features")
        asked, single, batch = body(1, labels=False), body(1), body(64)
        create(ports["onkel"])
        asyncio.run(load(ports["onkel"], "/v1/models/m/learn", batch, 2.0))
        asyncio.run(load(ports["river"], "/learn", batch, 1.0))
        races = {
            "predict, one row": [
                ("onkel", "/v1/models/m/predict", asked),
                ("bare", "/predict", single),
                ("river", "/predict", asked),
            ],
            "learn, one row": [("onkel", "/v1/models/m/learn", single), ("bare", "/predict", single), ("river", "/learn", single)],
            "learn, 64 rows": [("onkel", "/v1/models/m/learn", batch), ("river", "/learn", single)],
        }
        rates: dict[tuple[str, str], float] = {}
        for what, race in races.items():
            found: dict[str, list[Any]] = {name: [] for name, _, _ in race}
            for _ in range(rounds):
                for name, path, content in race:
                    found[name].append(asyncio.run(load(ports[name], path, content, seconds)))
            for name, _, content in race:
                rows = len(json.loads(content)["rows"])
                rate = rows * statistics.median(len(times) / seconds for times in found[name])
                times = np.concatenate(found[name])
                rates[what, name] = rate
                print(
                    f"{what:<18}{name:<7}{rate:9.0f} rows/s   {quantiles(times)}"
                )
        ours = rates["predict, one row", "onkel"] / rates["predict, one row", "bare"]
        print(f"single predict: {ours:.0%} of the bare route's rate (at least 70 %)")
        times = rates["learn, 64 rows", "onkel"] / rates["learn, 64 rows", "river"]
        print(f"learning in batches of 64: {times:.0f} times the rows of River with a commit for each call (at least 50)")
        mixed = asyncio.run(mixture(ports["onkel"], asked, single, batch, 3 * seconds))
        for name, times_taken in mixed.items():
            print(
                f"mixed load, {name:<8} {quantiles(np.array(times_taken))}"
            )
        share, asked, chance, every = labels_saved()
        print(
            f"labels asked for where they pay: {share:.0%} of the labels, error {asked:.3f}; "
            f"as many at random {chance:.3f}; all {every:.3f}"
        )
    return 0


def body(rows: int, labels: bool = True) -> bytes:
    rng = np.random.default_rng(rows)
    X = rng.normal(size=(rows, FEATURES)).round(4)
    taught = {"labels": (X[:, 0] * X[:, 1] > 0).tolist()} if labels else {}
    return json.dumps({"rows": X.tolist(), **taught}).encode()


@contextmanager
def server(name: str, folder: Path) -> Iterator[int]:
    """A contender in a process of its own, on a free port."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    if name == "onkel":
        command = [sys.executable, "-m", "onkel", "serve", str(folder / "models"), "--port", str(port)]
    else:
        command = [sys.executable, "-c", BARE if name == "bare" else RIVER, str(port), str(folder / "river.sqlite")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            try:
                with socket.create_connection(("127.0.0.1", port), 1) as line:
                    line.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    if name != "onkel" or line.recv(100).startswith(b"HTTP/1.1 200"):
                        break
            except OSError:
                pass
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(30)


def create(port: int) -> None:
    from onkel.server.client import Client

    with Client(f"http://127.0.0.1:{port}") as client:
        client.create("m", "classes", params={"budget": 64, "kernel": "linear"})


def request(path: str, content: bytes) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    ).encode() + content


async def one(port: int, sent: bytes, end: float, times: list[float]) -> None:
    """A connection that asks again as soon as it was answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < end:
        start = time.perf_counter()
        writer.write(sent)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        times.append(time.perf_counter() - start)
    writer.close()


async def load(port: int, path: str, content: bytes, seconds: float) -> list[float]:
    times: list[float] = []
    end = time.perf_counter() + seconds
    await asyncio.gather(*(one(port, request(path, content), end, times) for _ in range(CONNECTIONS)))
    return times


async def mixture(port: int, asked: bytes, single: bytes, batch: bytes, seconds: float) -> dict[str, list[float]]:
    """Eight connections predict, four learn rows, four learn batches."""
    end = time.perf_counter() + seconds
    kinds: dict[str, list[float]] = {"predict": [], "learn": [], "batch": []}
    work = [one(port, request("/v1/models/m/predict", asked), end, kinds["predict"]) for _ in range(8)]
    work += [one(port, request("/v1/models/m/learn", single), end, kinds["learn"]) for _ in range(4)]
    work += [one(port, request("/v1/models/m/learn", batch), end, kinds["batch"]) for _ in range(4)]
    await asyncio.gather(*work)
    return kinds


def quantiles(times: np.ndarray) -> str:
    return f"p50 {1e3 * np.median(times):6.2f} ms   p99 {1e3 * np.quantile(times, 0.99):7.2f} ms"


def fsync(folder: Path) -> float:
    times = []
    with open(folder / "probe", "wb") as stream:
        for _ in range(50):
            stream.write(b"x" * 4096)
            start = time.perf_counter()
            stream.flush()
            os.fsync(stream.fileno())
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def labels_saved() -> tuple[float, float, float, float]:
    """The server's rule of asking, on a drifting stream: share of labels, error with them, with as many at random, with all."""
    import onkel
    from onkel.server.asking import Asker
    from onkel.streams import drifting_mixtures

    errors, share = {"asked": [], "random": [], "all": []}, []
    for seed in range(5):
        X, y = drifting_mixtures(3000, seed=seed)
        asker, chance = Asker(0.2), np.random.default_rng(seed)
        models = {name: onkel.KernelClassifier(budget=100).partial_fit(X[:200], y[:200]) for name in errors}
        taken = []
        for x, label in zip(X[200:], y[200:]):
            for name, model in models.items():
                errors[name].append(model.predict_one(x) != label)
            wanted = asker(models["asked"].predict_proba_rows(x.reshape(1, -1))[0].tolist())
            taken.append(wanted)
            for name, learns in (("asked", wanted), ("random", chance.random() < 0.2), ("all", True)):
                if learns:
                    models[name].learn_one(x, label)
        share.append(np.mean(taken))
    asked, chance, every = (float(np.mean(errors[name])) for name in ("asked", "random", "all"))
    return float(np.mean(share)), asked, chance, every
