"""The application in this process, asked over ASGI: as fast as a call, with the writer at work."""

from __future__ import annotations

import asyncio
import threading

import httpx

from onkel.server.app import Options, make


class Asking:
    """A loop in a thread of its own runs the application; the tests ask it from outside."""

    def __init__(self, folder, **options):
        self.app = make(Options(folder, **options))
        self.server = self.app.state.server

    def __enter__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self._lives = self.app.router.lifespan_context(self.app)
        self._run(self._lives.__aenter__())
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=120)
        self._run(self.server.ready.wait())
        return self

    def __exit__(self, *error):
        self._run(self.client.aclose())
        self._run(self._lives.__aexit__(None, None, None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def _run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(120)

    def request(self, method, path, body=None, headers=None):
        return self._run(self.client.request(method, path, json=body, headers=headers))

    def raw(self, method, path, content, headers):
        return self._run(self.client.request(method, path, content=content, headers=headers))

    def get(self, path, headers=None):
        return self._run(self.client.get(path, headers=headers))

    def put(self, path, body):
        return self.request("PUT", path, body)

    def post(self, path, body=None, headers=None):
        return self.request("POST", path, body, headers)

    def delete(self, path):
        return self.request("DELETE", path)

    def together(self, requests, name="mine"):
        """Several at once: they wait in one queue and are committed as a group."""

        async def all_of_them():
            return await asyncio.gather(*(self.client.post(f"/v1/models/{name}/{route}", json=body) for route, body in requests))

        return self._run(all_of_them())
