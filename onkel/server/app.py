"""The routes: from HTTP to the writer and back.  One process; readers never wait for the writer."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

import onkel
import onkel.persist

from . import bodies, jobs
from .asking import Asker
from .bodies import BODIES, a_name, parsed
from .errors import Refused
from .events import Hub, Metrics
from .front import Front, problem
from .journal import Journal
from .keys import Keys
from .served import Served, created, probe, uploaded
from .shelf import Shelf, rebuilt
from .writer import Writer

PAGE = Path(__file__).parent / "page"
FEW = 64  # rows that are predicted at once, without leaving the loop over requests

log = logging.getLogger("onkel.server")


@dataclass
class Options:
    """What `onkel serve` was told."""

    folder: Path
    keys: Path | None = None
    expire: float = 7 * 86400.0  # seconds that a prediction waits for its label
    keep_log: int = 1_000_000  # examples of each stream that can be gone back to
    memory: int = 1 << 30  # bytes of models in memory
    models: int = 1000
    body: int = 16 << 20  # bytes of a request
    timeout: float = 30.0  # seconds in which a request's body must have come
    origins: list[str] = field(default_factory=list)  # who may ask from another page: CORS
    hosts: list[str] = field(default_factory=list)  # names under which a server without keys may be called; none: any


class Server:
    """Everything behind the routes."""

    def __init__(self, options: Options):
        self.options = options
        options.folder.mkdir(parents=True, exist_ok=True)
        self.keys = None if options.keys is None else Keys(options.keys)
        self.lock = lock_folder(options.folder)
        self.journal = Journal(options.folder)
        self.shelf = Shelf(self.journal, options.memory)
        self.hub, self.metrics = Hub(), Metrics(self.shelf)
        self.writer = Writer(self.shelf, self.journal, options.expire, options.keep_log, self.told)
        self.ready = asyncio.Event()
        self.askers: dict[int, Asker] = {}
        self.hot: dict[str, Callable[[str, bytes, dict[str, str]], Awaitable[str]]] = {}  # what Front answers itself

    def told(self, changed: list[Served]) -> None:
        """After a group: who listens hears of it."""
        (self.metrics.failed if self.writer.trouble else self.metrics.commits).inc()
        for served in changed:
            if served.id in self.hub.slots:
                self.hub.tell(served.id, {**served.point(), "beside": served.beside()})

    async def found(self, name: str) -> Served:
        served = self.shelf.ready(name)
        if served is None:
            served = await asyncio.to_thread(self.shelf.bring, name)
        return served

    async def compiled(self) -> None:
        """Compile, or load from the cache, what every model runs; until then readyz says so and requests wait."""
        await asyncio.to_thread(
            lambda: [
                probe(onkel.KernelClassifier, {}, "classes"),
                probe(onkel.KernelRegressor, {}, "reals"),
                probe(onkel.NoveltyDetector, {}, "novelty"),
            ]
        )
        self.ready.set()

    def predictions(self, served: Served, given: list[Any]) -> str:
        now = self.writer.now()
        rows = [served.row(one) for one in given]
        if served.about.get("width") is None and len({len(row) for row in rows}) > 1:
            raise Refused(422, "width", "the rows have different numbers of values")
        answers = []
        for row in rows:
            name, prediction = jobs.new_id(now), served.predict(row)
            told = json.dumps(prediction)
            if served.shadow_of is None:
                self.writer.open.append((served.stream, name, row, told, now))
            answers.append(f'{{"id": "{name}", {told[1:-1]}{self.ask(served, prediction)}}}')
        if len(self.writer.open) > 200_000:
            del self.writer.open[:-200_000]
        head = f'"model": {json.dumps(served.name)}, "step": {served.steps}, "hash": "{served.chain.hex()}"'
        return f'{{{head}, "predictions": [{", ".join(answers)}]}}'

    def ask(self, served: Served, prediction: dict[str, Any]) -> str:
        """Whether a label would pay; of classes only."""
        chances = prediction.get("probabilities")
        if chances is None:
            return ""
        asker = self.askers.get(served.id)
        if asker is None:
            asker = self.askers[served.id] = Asker(served.about.get("ask", 0.1))
        return f', "ask": {"true" if asker(list(chances.values())) else "false"}'


def lock_folder(folder: Path) -> Any:
    """One server for a folder: the lock goes with the process, however it ends."""
    stream = open(folder / "onkel.lock", "a+")
    try:
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        pass
    except OSError:
        stream.close()
        raise ValueError(f"another onkel serve works on {folder}; stop it first, or take another folder") from None
    return stream


def make(options: Options) -> FastAPI:
    """The application, for uvicorn or for tests."""
    server = Server(options)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        working = asyncio.create_task(server.writer.run())
        warming = asyncio.create_task(server.compiled())
        try:
            yield
        finally:
            server.hub.close()
            await server.writer.stop()
            await working
            warming.cancel()
            await asyncio.to_thread(server.writer.close)
            server.lock.close()

    app = FastAPI(title="onkel", version=onkel.__version__, lifespan=life, description=__doc__, docs_url=None, redoc_url=None)
    app.state.server = server
    app.add_exception_handler(Refused, lambda request, error: problem(error))  # type: ignore[arg-type]
    app.add_exception_handler(
        HTTPException,
        lambda request, error: problem(  # type: ignore[arg-type]
            Refused(error.status_code, "http", str(error.detail)), error.headers
        ),
    )
    app.add_exception_handler(
        RequestValidationError,
        lambda request, error: problem(  # type: ignore[arg-type]
            Refused(422, "parameter", wrong(error))
        ),
    )  # type: ignore[attr-defined]
    add_models(app, server)
    add_learning(app, server)
    add_watching(app, server)
    app.mount("/page", StaticFiles(directory=PAGE), name="page")
    app.add_middleware(Front, server=server)
    return app


# --- what the documentation at /docs says


def wrong(error: Any) -> str:
    return "; ".join(f"{part['loc'][-1]}: {part['msg']}" for part in error.errors())


OCTETS = "application/octet-stream"
_ERROR = {
    "type": "object",
    "required": ["error", "detail"],
    "properties": {"error": {"type": "string"}, "detail": {"type": "string"}},
}


def said(
    body: str | None = None, *statuses: int, key: bool = False, file: bool = False, answers: str | None = None
) -> dict[str, Any]:
    """The part of OpenAPI that FastAPI cannot see, since bodies are read by hand; ``answers``: what comes, if not JSON."""
    refused = {"description": "refused", "content": {"application/json": {"schema": _ERROR}}}
    responses: dict[int, Any] = {200: {"description": "done"}} | dict.fromkeys(
        (400, 401, 403, 404, 408, 413, 421, 422, 500, 503, *statuses), refused
    )
    if answers is not None:
        responses[200] = {"description": "as asked", "content": {answers: {"schema": {"type": "string"}}}}
    extra: dict[str, Any] = {}
    if body is not None:
        content = {"application/json": {"schema": BODIES[body]}}
        if file:
            content[OCTETS] = {"schema": {"type": "string", "format": "binary"}}
        extra["requestBody"] = {"required": True, "content": content}
    if key:
        visible = {"type": "string", "pattern": "^[!-~]{1,200}$"}
        extra["parameters"] = [{"name": "Idempotency-Key", "in": "header", "required": False, "schema": visible}]
    return {"openapi_extra": extra, "responses": responses, "response_class": JSONResponse}


def key_of(headers: dict[str, str]) -> str | None:
    key = headers.get("idempotency-key")
    if key is not None and not (1 <= len(key) <= 200 and key.isascii() and key.isprintable() and " " not in key):
        raise Refused(422, "key", "Idempotency-Key must be 1 to 200 visible ASCII characters")
    return key


def add_models(app: FastAPI, server: Server) -> None:
    """Making, looking at and ending models."""

    @app.get("/v1/models", tags=["models"], summary="All models", **said())
    async def listed() -> Any:
        return JSONResponse(
            {"models": [description(server, one) for one in sorted(server.shelf.entries.values(), key=lambda s: s.name)]}
        )

    @app.put(
        "/v1/models/{name}",
        tags=["models"],
        summary="Make a model, or upload one as a .onkel file",
        status_code=201,
        **said("create", 409, 415, 507, file=True),
    )
    async def put(name: str, request: Request) -> Any:
        a_name(name)
        content, kind = await request.body(), request.headers.get("content-type", "application/json").partition(";")[0].strip()
        shadow_of = None
        await server.ready.wait()
        if kind == OCTETS:
            about, model = await asyncio.to_thread(uploaded, content)
            shadow_of = request.query_params.get("shadow_of")
        elif kind == "application/json":
            body = parsed(content, "create")
            shadow_of = body.get("shadow_of")
            about, model = await asyncio.to_thread(created, body)
        else:
            raise Refused(415, "type", "send application/json, or a .onkel file as application/octet-stream")
        about["made"] = hashlib.sha256(content + str(shadow_of).encode()).hexdigest()
        present = server.shelf.entries.get(name)
        if present is not None and present.about.get("made") == about["made"]:
            return JSONResponse(description(server, present))  # a retry
        file = await asyncio.to_thread(onkel.persist.dumps, model)
        await server.writer.do(jobs.create(name, about, file, shadow_of, server.options.models), alone=True)
        return JSONResponse(description(server, await server.found(name)), 201)

    @app.get("/v1/models/{name}", tags=["models"], summary="One model", **said())
    async def get(name: str) -> Any:
        return JSONResponse(description(server, server.shelf.find(a_name(name))))

    @app.delete("/v1/models/{name}", tags=["models"], summary="End a model; its log goes with it", **said(None, 409))
    async def delete(name: str) -> Any:
        await server.writer.do(jobs.delete(a_name(name)), alone=True)
        return JSONResponse({"deleted": name})

    @app.get(
        "/v1/models/{name}/state",
        tags=["time"],
        summary="The model as a .onkel file, now or as it was",
        **said(None, 410, answers=OCTETS),
    )
    async def state(name: str, step: int | None = None) -> Any:
        served = await server.found(a_name(name))
        if step is not None and not 0 <= step <= served.steps:
            raise Refused(422, "step", f"step must be from 0 to {served.steps}, how far this model is; got {step}")

        def file() -> tuple[bytes, int, str]:
            made = served
            if step is not None and step != served.steps:
                with server.journal.reader() as journal:
                    made = rebuilt(journal, served, served.begins + step)
            return made.file(), made.steps, made.chain.hex()

        content, at, chain = await asyncio.to_thread(file)
        told = {"Content-Disposition": f'attachment; filename="{name}.onkel"', "X-Onkel-Step": str(at), "X-Onkel-Hash": chain}
        return Response(content, media_type=OCTETS, headers=told)

    @app.post("/v1/models/{name}/rollback", tags=["time"], summary="Go back to an earlier step", **said("rollback", 409, 410))
    async def rollback(name: str, request: Request) -> Any:
        body = parsed(await request.body(), "rollback")
        return JSONResponse(await server.writer.do(jobs.rollback(a_name(name), int(body["step"])), alone=True))

    @app.post("/v1/models/{name}/promote", tags=["models"], summary="Let a shadow answer", **said(None, 409))
    async def promote(name: str) -> Any:
        return JSONResponse(await server.writer.do(jobs.promote(a_name(name)), alone=True))

    @app.delete("/v1/models/{name}/examples", tags=["time"], summary="Forget examples, exactly", **said("forget", 409, 410))
    async def forget(name: str, request: Request) -> Any:
        body = parsed(await request.body(), "forget")
        answer = await server.writer.do(jobs.forget(a_name(name), list(dict.fromkeys(body["ids"]))), alone=True)
        await asyncio.get_running_loop().run_in_executor(server.writer.thread, server.journal.tidy)
        return JSONResponse(answer)


def description(server: Server, served: Served) -> dict[str, Any]:
    main = server.shelf.answering(served)
    told = {**served.told(), "shadow_of": None if main is None else main.name, "beside": served.beside()}
    told["predictions"]["expired"] = server.shelf.expired.get(served.stream, 0)
    return told


def add_learning(app: FastAPI, server: Server) -> None:
    """Predicting and learning."""

    async def predict(name: str, content: bytes, headers: dict[str, str]) -> str:
        body = parsed(content, "predict")
        served = server.shelf.ready(name) if server.ready.is_set() else None
        if served is None:
            await server.ready.wait()
            served = await server.found(name)
        if len(body["rows"]) <= FEW:
            return server.predictions(served, body["rows"])
        return await asyncio.to_thread(server.predictions, served, body["rows"])

    async def learn(name: str, content: bytes, headers: dict[str, str]) -> str:
        body = parsed(content, "learn")
        bodies.learning(body, server.shelf.find(a_name(name)).task)
        return await changed(name, headers, content, jobs.learn(body))

    async def labels(name: str, content: bytes, headers: dict[str, str]) -> str:
        body = parsed(content, "labels")
        if len(body["ids"]) != len(body["labels"]):
            raise Refused(422, "labels", f"labels holds {len(body['labels'])} items, ids {len(body['ids'])}: one for each id")
        server.shelf.find(a_name(name))
        return await changed(name, headers, content, jobs.labels(body))

    async def changed(name: str, headers: dict[str, str], content: bytes, change: Callable[..., Any]) -> str:
        await server.ready.wait()
        await server.found(name)
        return str(await server.writer.do(jobs.once(key_of(headers), content, change, name)))

    server.hot = {"predict": predict, "learn": learn, "labels": labels}
    for verb, summary, told in (
        ("predict", "Predict rows", said("predict")),
        ("learn", "Predict rows, then learn them", said("learn", 409, key=True)),
        ("labels", "Labels of predictions made before", said("labels", 409, key=True)),
    ):
        app.post(f"/v1/models/{{name}}/{verb}", tags=["learning"], summary=summary, **told)(described)

    @app.post("/v1/models/{name}/explain", tags=["learning"], summary="Why a prediction is as it is", **said("predict", 501))
    async def explain(name: str, request: Request) -> Any:
        body = parsed(await request.body(), "predict")
        served = await server.found(a_name(name))
        if not hasattr(served.model, "explain"):
            raise Refused(501, "explain", "this model cannot say why")
        if not served.fitted:
            raise Refused(422, "explain", "this model has not learned anything yet")
        rows = [served.row(row) for row in body["rows"][:20]]
        try:
            return JSONResponse({"model": name, "explanations": [await asyncio.to_thread(reasons, served, row) for row in rows]})
        except (ValueError, TypeError) as error:
            raise Refused(422, "explain", str(error)) from None


async def described(name: str) -> None:
    """Stands in the description of the API; these requests are answered in front of it, where a prediction costs half as much."""


def reasons(served: Served, row: Any) -> dict[str, Any]:
    why = served.model.explain(row)
    return {"text": why.text(), "offset": float(why.offset), "terms": [float(term) for term in why.terms]}


def add_watching(app: FastAPI, server: Server) -> None:
    """The page, its events, and what monitors ask for."""

    @app.get(
        "/v1/models/{name}/events",
        tags=["watching"],
        summary="Server-sent events: the curve so far, then each change",
        **said(answers="text/event-stream"),
    )
    async def events(name: str) -> Any:
        served = await server.found(a_name(name))
        if server.hub.count >= 200:
            raise Refused(503, "busy", "200 listeners are there already; try again later", 30)

        def past() -> list[Any]:
            with server.journal.reader() as journal:
                return journal.points(served.id)

        curve = await asyncio.to_thread(past)

        async def stream() -> AsyncIterator[str]:
            yield f"event: curve\ndata: {json.dumps(curve)}\n\n"
            yield f"event: point\ndata: {json.dumps({**served.point(), 'beside': served.beside()})}\n\n"
            async for event in server.hub.listen(served.id):
                yield ": still here\n\n" if event is None else f"event: point\ndata: {json.dumps(event)}\n\n"

        return StreamingResponse(stream(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    @app.get("/healthz", tags=["watching"], summary="The process lives", **said())
    async def healthz() -> Any:
        return JSONResponse({"status": "alive"})

    @app.get("/readyz", tags=["watching"], summary="Whether it can learn", **said())
    async def readyz() -> Any:
        if not server.ready.is_set():
            raise Refused(503, "compiling", "onkel compiles its loop, once per machine; learning waits for it", 2)
        if server.writer.trouble is not None:
            raise Refused(503, "disk", f"nothing can be written to the disk ({server.writer.trouble}); predictions go on", 5)
        return JSONResponse({"status": "ready"})

    @app.get(
        "/metrics",
        tags=["watching"],
        summary="For Prometheus",
        **said(answers="text/plain"),
    )
    async def metrics() -> Any:
        return Response(server.metrics.text(server.writer.queue.qsize(), server.journal.bytes_on_disk), media_type="text/plain")

    @app.get("/", include_in_schema=False)
    async def page() -> Any:
        return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Any:
        return FileResponse(PAGE / "docs.html", headers={"Cache-Control": "no-cache"})
