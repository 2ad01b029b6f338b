"""kill -9, a full disk, a clock set back: what was acknowledged is in the model, exactly once."""

import asyncio
import os
import random
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

import httpx

import onkel
from onkel.persist import dumps
from onkel.server.client import AsyncClient, Client, ServerError
from onkel.server.journal import Journal
from onkel.server.shelf import entry

from .asking import Asking
from .served import ROOT, Process

NAMES = ("alpha", "beta", "gamma")


def stream(seed, n):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).round(6)
    return X, np.where(X[:, 0] * X[:, 1] + 0.3 * X[:, 2] > 0, "up", "down")


async def storm(server, total, clients, kills):
    """Clients learn and label until every example is acknowledged, while the server is killed again and again."""
    done, crashes = [], random.Random(7)
    share = total // clients

    async def one(number):
        X, y = stream(number, share)
        name = NAMES[number % len(NAMES)]
        async with AsyncClient(server.url, timeout=20.0) as client:
            at = 0
            while at < share:
                n = min(share - at, 1 + (at * 7 + number) % 40)
                rows, labels = X[at : at + n].tolist(), y[at : at + n].tolist()
                ids = [f"{number}-{at + i}" for i in range(n)]
                if (at // 40 + number) % 5 == 0:  # these labels come later; an id lost in a crash is asked for anew
                    while ids:
                        predictions = await client.predict(name, rows)
                        answer = await client.label(name, [p["id"] for p in predictions], labels)
                        late = {one["id"] for one in answer["rejected"]}
                        left = [i for i, p in enumerate(predictions) if p["id"] in late]
                        assert answer["learned"] + len(left) == len(rows)
                        done.append((name, answer["learned"]))
                        rows, labels, ids = ([part[i] for i in left] for part in (rows, labels, ids))
                else:
                    answer = await client.learn(name, rows, labels, ids=ids)
                    assert len(answer["predictions"]) == n
                    done.append((name, n))
                at += n

    async def killer():
        for number in range(kills):
            while sum(n for _, n in done) < total * (number + 1) / (kills + 2):
                await asyncio.sleep(0.02)
            await asyncio.sleep(crashes.random() * 0.2)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)

    await asyncio.gather(killer(), *(one(number) for number in range(clients)))
    return done


def everything(folder):
    """What the log holds, by model: the examples in order, and the file that a plain loop over them comes to."""
    journal = Journal.to_read(folder)
    try:
        for served in (entry(row) for row in journal.models()):
            model, learned = onkel.KernelClassifier(budget=30), []
            for example in journal.examples(served.stream, 0, served.step):
                model.learn_one(example.row, example.label)
                learned.append(example)
            yield served, learned, dumps(model)
    finally:
        journal.close()


@pytest.mark.parametrize("total", [2000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_kills_in_the_middle_of_learning(tmp_path, total):
    with Process(tmp_path / "models") as server:
        with Client(server.url) as client:
            for name in NAMES:
                client.create(name, "classes", params={"budget": 30})
        done = asyncio.run(storm(server, total, clients=16, kills=3))
        assert sum(n for _, n in done) == total // 16 * 16
        live = {name: httpx.get(f"{server.url}/v1/models/{name}/state").content for name in NAMES}
        assert server.stop() in (0, -15)
        wanted = {}
        for number in range(16):
            X, y = stream(number, total // 16)
            wanted.setdefault(NAMES[number % 3], []).extend((x.tobytes(), label) for x, label in zip(X, y))
        for served, learned, file in everything(tmp_path / "models"):
            assert sorted((e.row.tobytes(), e.label) for e in learned) == sorted(wanted[served.name])  # each once, none twice
            assert live[served.name] == file
        for name in NAMES:
            out = tmp_path / f"{name}.onkel"
            command = [sys.executable, "-m", "onkel", "replay", str(tmp_path / "models"), name, "--out", str(out), "--from-start"]
            subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
            assert out.read_bytes() == live[name]


def test_a_full_disk_stops_learning_and_nothing_else(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if (
        os.name != "posix"
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(small)], capture_output=True).returncode
    ):
        pytest.skip("needs the right to mount a small disk")
    try:
        with Process(small / "models") as server:
            X, y = stream(0, 4000)
            with Client(server.url) as client:
                client.create("m", "classes", params={"budget": 30})
                client.learn("m", X[:100], y[:100])
            (small / "filler").write_bytes(b"x" * (700 * 1024))
            acknowledged, refused = 100, None
            with httpx.Client() as http:
                while refused is None:
                    body = {
                        "rows": X[acknowledged : acknowledged + 50].tolist(),
                        "labels": y[acknowledged : acknowledged + 50].tolist(),
                    }
                    answer = http.post(f"{server.url}/v1/models/m/learn", json=body)
                    if answer.status_code == 200:
                        acknowledged += 50
                    else:
                        refused = answer
                assert refused.status_code == 503
                assert "space" in refused.json()["detail"]
                assert refused.headers["retry-after"]
                assert http.get(f"{server.url}/readyz").status_code == 503
                assert http.get(f"{server.url}/v1/models/m").json()["step"] == acknowledged
                assert http.post(f"{server.url}/v1/models/m/predict", json={"rows": X[:1].tolist()}).status_code == 200
                assert http.post(f"{server.url}/v1/models/m/learn", json=body).status_code == 503
                (small / "filler").unlink()
                answer = http.post(f"{server.url}/v1/models/m/learn", json=body)
                assert answer.status_code == 200
                assert answer.json()["step"] == acknowledged + 50
                assert http.get(f"{server.url}/readyz").status_code == 200
                live = http.get(f"{server.url}/v1/models/m/state").content
            server.kill()
            ((_, learned, file),) = everything(small / "models")
            assert len(learned) == acknowledged + 50
            assert file == live
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_sigterm_drains(tmp_path):
    """What waits is learned and answered; who listens to events holds nothing up."""
    with Process(tmp_path / "models") as server:
        with Client(server.url) as client:
            client.create("m", "classes", params={"budget": 30})
        X, y = stream(1, 3000)

        async def many():
            answers = []
            async with httpx.AsyncClient(timeout=30) as http:

                async def listen():
                    async with http.stream("GET", f"{server.url}/v1/models/m/events") as events:
                        async for _ in events.aiter_lines():
                            pass

                async def learn(i):
                    body = {"rows": X[i : i + 10].tolist(), "labels": y[i : i + 10].tolist()}
                    try:
                        answer = await http.post(f"{server.url}/v1/models/m/learn", json=body)
                        answers.append(answer.status_code)
                    except httpx.TransportError:
                        answers.append(None)

                listening = asyncio.create_task(listen())
                await asyncio.sleep(0.2)
                working = [asyncio.create_task(learn(i)) for i in range(0, 3000, 10)]
                await asyncio.sleep(0.1)
                start = time.monotonic()
                code = await asyncio.to_thread(server.stop)
                took = time.monotonic() - start
                await asyncio.gather(*working)
                await asyncio.gather(listening, return_exceptions=True)
            return answers, code, took

        answers, code, took = asyncio.run(many())
        assert code in (0, -15)
        assert took < 20
        ((_, learned, _),) = everything(tmp_path / "models")
        assert len(learned) == 10 * answers.count(200)  # acknowledged, and nothing else


def test_a_clock_that_is_set_back(tmp_path, monkeypatch):
    with Asking(tmp_path, expire=1000.0) as ask:
        ask.put("/v1/models/m", {"task": "classes"})
        X, y = stream(2, 100)
        ask.post("/v1/models/m/learn", {"rows": X[:50].tolist(), "labels": y[:50].tolist()})
        one = ask.post("/v1/models/m/predict", {"rows": [X[0].tolist()]}).json()["predictions"][0]["id"]
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() - 86400.0)
        assert ask.post("/v1/models/m/learn", {"rows": X[50:].tolist(), "labels": y[50:].tolist()}).json()["step"] == 100
        late = ask.post("/v1/models/m/labels", {"ids": [one], "labels": ["up"]}).json()
        assert late["learned"] == 1
        with ask.server.journal.reader() as journal:
            times = [example.time for example in journal.examples(1, 0, 101)]
        assert times == sorted(times)
    with Asking(tmp_path) as ask:  # a new process remembers how late it was
        assert ask.server.writer.now() >= times[-1]


def test_clients_retry_and_tell_what_the_server_said(tmp_path):
    with Process(tmp_path / "models") as server, Client(server.url) as client:
        client.create("m", "classes")
        client.create("m", "classes")
        X, y = stream(3, 60)
        assert client.learn("m", X[:30], y[:30])["step"] == 30
        predictions = client.predict("m", X[30:35])
        assert client.label("m", [p["id"] for p in predictions], y[30:35])["learned"] == 5
        assert [model["name"] for model in client.models()] == ["m"]
        events = client.events("m")
        assert next(events)["step"] == 35
        client.learn("m", X[35:40], y[35:40])
        assert next(events)["step"] == 40
        events.close()
        with pytest.raises(ServerError, match="4") as refused:
            client.learn("m", [[1, 2]], ["up"])
        assert refused.value.status == 422
        server.kill()
        restarted = []
        import threading

        thread = threading.Timer(0.5, lambda: (server.start(ready=False), restarted.append(1)))
        thread.start()
        assert client.learn("m", X[40:50], y[40:50])["step"] == 50
        thread.join()
        assert restarted
