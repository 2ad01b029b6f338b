"""A real server in a process of its own, for the tests of this folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[2]


class Process:
    """`onkel serve FOLDER` on a free port of the loopback; ``with`` ends it."""

    def __init__(self, folder, *options, environment=None):
        self.folder, self.options, self.environment = folder, [str(option) for option in options], environment or {}
        self.port = 0
        self.start()

    def start(self, ready=True):
        command = [sys.executable, "-m", "onkel", "serve", str(self.folder), "--port", str(self.port), *self.options]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", **self.environment}
        self.log = open(Path(self.folder).parent / "server.log", "a+")
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)
        line = self.process.stdout.readline()
        if " at http://" not in line:
            raise RuntimeError(f"{line}{self.said()}")
        self.url = line.split(" at ")[1].split()[0]
        self.port = int(self.url.rpartition(":")[2])
        if ready:
            self.wait()

    def wait(self, seconds=120.0):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if httpx.get(f"{self.url}/readyz").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise RuntimeError(self.said())

    def said(self):
        self.log.seek(0)
        return self.log.read()[-3000:]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.close()
        return code

    def close(self):
        self.process.stdout.close()
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.stop()
