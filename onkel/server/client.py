"""Talking to a server: ``onkel.Client`` and ``onkel.AsyncClient``, whose retries never learn anything twice."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import numpy as np

TRIES, WAIT, LONGEST = 40, 0.1, 2.0  # a request is sent so often at most, after waits that double
AGAIN = (408, 425, 429, 500, 502, 503, 504)


class ServerError(RuntimeError):
    """What the server answered: ``status``, ``error`` (a word) and ``detail`` (a sentence)."""

    def __init__(self, status: int, error: str, detail: str):
        super().__init__(detail)
        self.status, self.error, self.detail = status, error, detail


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        return value.to_dict("records")
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


class _Both:
    """What the two clients share: what is sent, and what an answer means."""

    def __init__(self, url: str, key: str | None = None, timeout: float = 60.0):
        self.url = url.rstrip("/")
        self.headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.timeout = timeout

    def _request(self, method: str, path: str, body: Any = None, once: bool = False) -> dict[str, Any]:
        headers = {**self.headers, "Content-Type": "application/json"}
        if once:
            headers["Idempotency-Key"] = secrets.token_hex(16)
        content = None if body is None else json.dumps(_plain(body)).encode()
        return {"method": method, "url": f"{self.url}{path}", "headers": headers, "content": content}

    def _learn(self, name: str, rows: Any, labels: Any, weights: Any, ids: Any) -> dict[str, Any]:
        body = {"rows": rows, "labels": labels, "weights": weights, "ids": ids}
        sent = {part: value for part, value in body.items() if value is not None}
        return self._request("POST", f"/v1/models/{name}/learn", sent, once=True)

    @staticmethod
    def _wait(tried: int, answer: httpx.Response | None) -> float:
        said = answer.headers.get("retry-after", "") if answer is not None else ""
        return float(said) if said.isdigit() else min(WAIT * 2.0**tried, LONGEST)

    @staticmethod
    def _told(answer: httpx.Response) -> Any:
        if answer.is_success:
            return answer.json()
        try:
            told = answer.json()
            raise ServerError(answer.status_code, told["error"], told["detail"])
        except (ValueError, KeyError, TypeError):
            raise ServerError(answer.status_code, "http", answer.text[:200]) from None


class Client(_Both):
    """``Client(url, key)``: predict, learn, label, events.  Each call is repeated until the server has answered it once.

    client = onkel.Client("http://127.0.0.1:8700")
    client.create("mine", "classes")
    client.learn("mine", [[0.1, 2.0]], ["a"])
    """

    def __init__(self, url: str, key: str | None = None, timeout: float = 60.0):
        super().__init__(url, key, timeout)
        self._http = httpx.Client(timeout=timeout)

    def _send(self, request: dict[str, Any]) -> Any:
        for tried in range(TRIES):
            answer = None
            try:
                answer = self._http.request(**request)
                if answer.status_code not in AGAIN or tried == TRIES - 1:
                    return self._told(answer)
            except httpx.TransportError:
                if tried == TRIES - 1:
                    raise
            time.sleep(self._wait(tried, answer))
        raise AssertionError

    def create(self, name: str, task: str, **body: Any) -> dict[str, Any]:
        """Make a model: ``params={...}``, ``model="auto"``, ``schema={...}``, ``shadow_of=...``."""
        return self._send(self._request("PUT", f"/v1/models/{name}", {"task": task, **body}))  # type: ignore[no-any-return]

    def model(self, name: str) -> dict[str, Any]:
        return self._send(self._request("GET", f"/v1/models/{name}"))  # type: ignore[no-any-return]

    def models(self) -> list[dict[str, Any]]:
        return self._send(self._request("GET", "/v1/models"))["models"]  # type: ignore[no-any-return]

    def predict(self, name: str, rows: Any) -> list[dict[str, Any]]:
        """One dict for each row, with the id under which its label may come later."""
        return self._send(self._request("POST", f"/v1/models/{name}/predict", {"rows": rows}))["predictions"]  # type: ignore[no-any-return]

    def learn(self, name: str, rows: Any, labels: Any = None, weights: Any = None, ids: Any = None) -> dict[str, Any]:
        """Predict, then learn; durable when it returns."""
        return self._send(self._learn(name, rows, labels, weights, ids))  # type: ignore[no-any-return]

    def label(self, name: str, ids: Any, labels: Any) -> dict[str, Any]:
        """Labels of predictions that were made before."""
        return self._send(self._request("POST", f"/v1/models/{name}/labels", {"ids": ids, "labels": labels}, once=True))  # type: ignore[no-any-return]

    def events(self, name: str) -> Iterator[dict[str, Any]]:
        """The model's newest figures, one dict after each change."""
        with self._http.stream("GET", f"{self.url}/v1/models/{name}/events", headers=self.headers, timeout=None) as answer:
            if not answer.is_success:
                answer.read()
                self._told(answer)
            kind = ""
            for line in answer.iter_lines():
                kind = line[7:] if line.startswith("event: ") else kind
                if line.startswith("data: ") and kind == "point":
                    yield json.loads(line[6:])

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncClient(_Both):
    """The same for asyncio."""

    def __init__(self, url: str, key: str | None = None, timeout: float = 60.0):
        super().__init__(url, key, timeout)
        self._http = httpx.AsyncClient(timeout=timeout)

    async def _send(self, request: dict[str, Any]) -> Any:
        for tried in range(TRIES):
            answer = None
            try:
                answer = await self._http.request(**request)
                if answer.status_code not in AGAIN or tried == TRIES - 1:
                    return self._told(answer)
            except httpx.TransportError:
                if tried == TRIES - 1:
                    raise
            await asyncio.sleep(self._wait(tried, answer))
        raise AssertionError

    async def create(self, name: str, task: str, **body: Any) -> dict[str, Any]:
        return await self._send(self._request("PUT", f"/v1/models/{name}", {"task": task, **body}))  # type: ignore[no-any-return]

    async def model(self, name: str) -> dict[str, Any]:
        return await self._send(self._request("GET", f"/v1/models/{name}"))  # type: ignore[no-any-return]

    async def models(self) -> list[dict[str, Any]]:
        return (await self._send(self._request("GET", "/v1/models")))["models"]  # type: ignore[no-any-return]

    async def predict(self, name: str, rows: Any) -> list[dict[str, Any]]:
        return (await self._send(self._request("POST", f"/v1/models/{name}/predict", {"rows": rows})))["predictions"]  # type: ignore[no-any-return]

    async def learn(self, name: str, rows: Any, labels: Any = None, weights: Any = None, ids: Any = None) -> dict[str, Any]:
        return await self._send(self._learn(name, rows, labels, weights, ids))  # type: ignore[no-any-return]

    async def label(self, name: str, ids: Any, labels: Any) -> dict[str, Any]:
        return await self._send(self._request("POST", f"/v1/models/{name}/labels", {"ids": ids, "labels": labels}, once=True))  # type: ignore[no-any-return]

    async def events(self, name: str) -> AsyncIterator[dict[str, Any]]:
        async with self._http.stream("GET", f"{self.url}/v1/models/{name}/events", headers=self.headers, timeout=None) as answer:
            if not answer.is_success:
                await answer.aread()
                self._told(answer)
            kind = ""
            async for line in answer.aiter_lines():
                kind = line[7:] if line.startswith("event: ") else kind
                if line.startswith("data: ") and kind == "point":
                    yield json.loads(line[6:])

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
