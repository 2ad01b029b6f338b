"""What every request passes before a route sees it: where it comes from, who asks, how large it is and how long it takes."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import time
from collections.abc import Mapping
from typing import Any

from fastapi.responses import JSONResponse

from .errors import Refused
from .keys import allows

log = logging.getLogger("onkel.access")
OPEN = ("/", "/healthz", "/readyz", "/docs", "/openapi.json")
HOT = re.compile(r"/v1/models/([^/]+)/(predict|learn|labels)")
LEARNING = re.compile(r"/v1/models/[^/]+/(learn|labels)")
READING = re.compile(r"/v1/models/[^/]+/(predict|explain)")
ROUTE = re.compile(r"/v1/models/[^/]+(/[a-z]+)?")


def problem(error: Refused, headers: Mapping[str, str] | None = None) -> JSONResponse:
    told = dict(headers or {})
    if error.retry_after is not None:
        told["Retry-After"] = str(error.retry_after)
    if error.status == 401:
        told["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"error": error.error, "detail": error.detail}, error.status, told)


def wanted(method: str, path: str) -> str | None:
    """The scope that a request needs; None: nobody has to say who he is."""
    if path in OPEN or path.startswith("/page/"):
        return None
    if method in ("GET", "HEAD") or (method == "POST" and READING.fullmatch(path)):
        return "read"
    return "learn" if method == "POST" and LEARNING.fullmatch(path) else "admin"


async def whole(receive: Any) -> bytes:
    """The body; what the client sends until it has sent all, or gone."""
    parts, more = [], True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message["type"] == "http.request" and message.get("more_body", False)
    return b"".join(parts)


class Front:
    """ASGI middleware; plain, since it runs for every request."""

    def __init__(self, app: Any, server: Any):
        self.app, self.server = app, server

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, method, path = time.perf_counter(), scope["method"], scope["path"]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        request_id = headers.get("x-request-id", "")
        if not request_id or not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", request_id):
            request_id = secrets.token_hex(8)
        status = 500
        origin = headers.get("origin")

        async def answer(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] += [
                    (b"x-request-id", request_id.encode()),
                    (b"x-content-type-options", b"nosniff"),
                    (b"referrer-policy", b"no-referrer"),
                ]
                if path in ("/", "/docs") or path.startswith("/page/"):
                    message["headers"].append((b"content-security-policy", b"default-src 'self'; style-src 'self' 'unsafe-inline'"))
                if origin in self.server.options.origins:
                    message["headers"] += [(b"access-control-allow-origin", origin.encode()), (b"vary", b"Origin")]
            await send(message)

        try:
            if method == "OPTIONS" and origin in self.server.options.origins:
                allowed = {
                    "Access-Control-Allow-Methods": "GET, POST, PUT, DELETE",
                    "Access-Control-Max-Age": "600",
                    "Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key",
                }
                await JSONResponse({}, 200, allowed)(scope, receive, answer)
                return
            self.check(method, path, headers)
            hot = HOT.fullmatch(path) if method == "POST" else None
            if hot is None:
                await self.app(scope, self.limited(receive, headers), answer)
            else:
                content = await whole(self.limited(receive, headers))
                told = (await self.server.hot[hot[2]](hot[1], content, headers)).encode()
                sizes = [(b"content-type", b"application/json"), (b"content-length", str(len(told)).encode())]
                await answer({"type": "http.response.start", "status": 200, "headers": sizes})
                await send({"type": "http.response.body", "body": told})
        except Refused as refused:
            await problem(refused)(scope, receive, answer)
        finally:
            took = time.perf_counter() - start
            found = ROUTE.fullmatch(path)
            route = (
                f"/v1/models/{{name}}{found.group(1) or ''}" if found else path if path in OPEN or path == "/metrics" else "other"
            )
            self.server.metrics.request(route, status, took)
            if log.isEnabledFor(logging.INFO):
                log.info(
                    json.dumps(
                        {"id": request_id, "method": method, "path": path[:200], "status": status, "ms": round(1e3 * took, 2)}
                    )
                )

    def check(self, method: str, path: str, headers: dict[str, str]) -> None:
        """Where the request comes from, and who asks."""
        options, origin, host = self.server.options, headers.get("origin"), headers.get("host", "")
        if options.hosts and host.rpartition(":")[0 if ":" in host.rpartition("]")[2] else 2].strip("[]") not in options.hosts:
            raise Refused(421, "host", "a server without keys answers only under the loopback names; start it with --keys")
        if origin is not None and origin not in options.origins and origin.partition("://")[2] != host:
            raise Refused(403, "origin", f"pages of {origin[:100]!r} may not ask here; --allow-origin names those that may")
        scope = wanted(method, path)
        if self.server.keys is None or scope is None:
            return
        given = headers.get("authorization", "")
        key = given[7:].strip() if given[:7].lower() == "bearer " else headers.get("x-api-key", "")
        held = self.server.keys.scope(key)
        if held is None:
            raise Refused(401, "key", "send a key: Authorization: Bearer KEY (onkel keys add NAME makes one)")
        if not allows(held, scope):
            raise Refused(403, "scope", f"this needs a key of scope {scope!r}; yours is {held!r}")

    def limited(self, receive: Any, headers: dict[str, str]) -> Any:
        """The body, up to its limit, in due time."""
        options, taken, end = self.server.options, 0, time.monotonic() + self.server.options.timeout
        length, done = headers.get("content-length", "0"), False
        if not length.isdigit() or int(length[:20]) > options.body:
            raise Refused(413, "size", f"a request may have {options.body} bytes; send fewer rows at once")

        async def limited() -> Any:
            nonlocal taken, done
            if done:
                return await receive()
            try:
                async with asyncio.timeout(max(0.01, end - time.monotonic())):
                    message = await receive()
            except TimeoutError:
                raise Refused(408, "slow", f"the request's body did not come within {options.timeout:g} seconds") from None
            taken += len(message.get("body", b""))
            done = message["type"] != "http.request" or not message.get("more_body", False)
            if taken > options.body:
                raise Refused(413, "size", f"a request may have {options.body} bytes; send fewer rows at once")
            return message

        return limited
