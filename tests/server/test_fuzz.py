"""Requests that nobody would send: against the description of the API, and raw bytes."""

import random
import socket
import time

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

import httpx

from onkel.server.client import Client

from .served import Process


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzzed")
    with Process(folder / "models", "--max-body", "200000", "--max-models", "50") as running:
        taught(running, "m")
        yield running


def taught(server, name):
    with Client(server.url) as client:
        client.create(name, "classes", params={"budget": 20})
        X = np.random.default_rng(0).normal(size=(50, 2))
        client.learn(name, X, np.where(X[:, 0] > 0, "a", "b"))


def alive(server):
    return httpx.get(f"{server.url}/readyz", timeout=30).status_code == 200 and server.process.poll() is None


def test_the_api_is_what_it_says(server):
    schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis")
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis import strategies as st

    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    # What is well formed may still be refused (another width, an unknown name), so "valid data is accepted" cannot be asked.
    left_out = [schemathesis.checks.positive_data_acceptance] if hasattr(schemathesis.checks, "positive_data_acceptance") else []
    operations = [result.ok() for result in schema.get_all_operations() if "/events" not in result.ok().path]
    assert len(operations) > 12

    @seed(1)
    @settings(max_examples=250, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None)
    @given(data=st.data())
    def ask(data):
        operation = data.draw(st.sampled_from(operations))
        case = data.draw(operation.as_strategy())
        if isinstance(case.path_parameters, dict) and "name" in case.path_parameters and data.draw(st.booleans()):
            case.path_parameters["name"] = "m"
        case.call_and_validate(excluded_checks=left_out, timeout=60)

    ask()
    assert alive(server)


def raw(server, content, wait=3.0):
    """Send bytes, say nothing more, read what comes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=wait) as line:
        line.sendall(content)
        got = b""
        try:
            while part := line.recv(65536):
                got += part
                if b"\r\n\r\n" in got:
                    break
        except OSError:
            pass
        return got


def test_raw_bytes_and_headers(server):
    chance = random.Random(0)
    taught(server, "raw")
    good = b'{"rows": [[1.0, 2.0]], "labels": ["a"]}'
    head = b"POST /v1/models/raw/learn HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    before = httpx.get(f"{server.url}/v1/models/raw").json()["step"]
    learned = 0
    for round_ in range(120):
        body = bytearray(good)
        for _ in range(chance.randrange(4)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        extra = bytes(chance.choice(b"abc:;,\x00\x7f\xff -%\"'") for _ in range(chance.randrange(30)))
        request = (
            head % len(body)
            + (b"X-Odd: " + extra.replace(b"\n", b"") + b"\r\n" if round_ % 2 else b"")
            + b"Connection: close\r\n\r\n"
            + bytes(body)
        )
        got = raw(server, request)
        assert got.startswith(b"HTTP/1.1 "), got[:100]
        assert not got.startswith(b"HTTP/1.1 5"), (request, got[:300])
        learned += got.startswith(b"HTTP/1.1 200")
    assert httpx.get(f"{server.url}/v1/models/raw").json()["step"] == before + learned
    for nonsense in (
        b"\x16\x03\x01\x02\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n" * 50,
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    ):
        raw(server, nonsense, wait=1.0)
    assert alive(server)


def test_oversized_nested_slow_and_cut_requests_hold_nobody_up(server):
    taught(server, "cut")
    for length in (b"99999999999999999999", b"-1", b"abc", b"300000"):
        got = raw(server, b"POST /v1/models/cut/learn HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + length + b"\r\n\r\n{")
        assert got[:12] in (b"HTTP/1.1 413", b"HTTP/1.1 400"), got[:80]
    deep = b'{"rows": ' + b"[" * 90_000 + b"]" * 90_000 + b"}"
    got = raw(server, b"POST /v1/models/cut/learn HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(deep) + deep)
    assert got.startswith(b"HTTP/1.1 422")
    lines = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
    for line in lines:
        line.sendall(b"POST /v1/models/cut/learn HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
    start = time.monotonic()
    assert httpx.post(f"{server.url}/v1/models/cut/predict", json={"rows": [[1, 2]]}, timeout=30).status_code == 200
    assert time.monotonic() - start < 10
    for line in lines[:25]:
        line.close()  # cut in the middle
    for line in lines[25:]:
        line.close()
    chunked = b"POST /v1/models/cut/learn HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    got = raw(
        server, chunked + b"%x\r\n" % 150_000 + b" " * 150_000 + b"\r\n" + b"%x\r\n" % 150_000 + b" " * 150_000 + b"\r\n0\r\n\r\n"
    )
    assert got.startswith(b"HTTP/1.1 413")
    assert alive(server)
