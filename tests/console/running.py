"""``sharegroup console`` as a process, and what a browser may ask of it."""

from __future__ import annotations

import http.client
import json
import ssl
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.servers.process import HOST, ServerProcess, free_port
from tests.servers.sharegroup_server import SOURCE

ACT = "x-sharegroup-act"
START_S = 60
ANSWER_S = 60


class Console:
    """A console that runs."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.port = port
        self.tls = tls
        self.cookie = ""
        self.token = "1"
        self.proxy: Mapping[str, str] = {}
        """Headers of a proxy before the console."""

    def log_in(self, user: str, password: str, *, status: int = 200) -> Mapping[str, str]:
        """Log in. Returns the headers of the answer."""
        found, headers, body = self.answer(
            "/api/v1/login",
            method="POST",
            headers={ACT: "1"},
            body=json.dumps({"user": user, "password": password}).encode(),
        )
        assert found == status, body
        if status == 200:
            self.cookie = headers["set-cookie"].partition(";")[0]
            self.token = self.json("about")["token"]
        return headers

    def _connection(self) -> http.client.HTTPConnection:
        if self.tls is None:
            return http.client.HTTPConnection(HOST, self.port, timeout=ANSWER_S)
        return http.client.HTTPSConnection(HOST, self.port, timeout=ANSWER_S, context=self.tls)

    def answer(
        self,
        path: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of the answer."""
        connection = self._connection()
        try:
            connection.request(
                method, path, body, {"cookie": self.cookie, **self.proxy, **(headers or {})}
            )
            answered = connection.getresponse()
            return answered.status, dict(answered.getheaders()), answered.read()
        finally:
            connection.close()

    def json(self, name: str, *, status: int = 200, **query: object) -> Any:
        """The JSON at ``/api/v1/name``."""
        path = f"/api/v1/{name}" + (f"?{urlencode(query)}" if query else "")
        found, _, body = self.answer(path)
        assert found == status, body
        return json.loads(body)

    def act(self, name: str, *, status: int = 200, **given: object) -> str:
        """The sentence that an act says, or its error."""
        return str(next(iter(self.told(name, status=status, **given).values())))

    def told(self, name: str, *, status: int = 200, **given: object) -> dict[str, Any]:
        """All that an act says."""
        found, _, body = self.answer(
            f"/api/v1/acts/{name}",
            method="POST",
            headers={ACT: self.token, "content-type": "application/json"},
            body=json.dumps(given).encode(),
        )
        assert found == status, body
        told: dict[str, Any] = json.loads(body)
        return told

    @contextmanager
    def events(self, **query: object) -> Iterator[Iterator[Any]]:
        """The events of a stream, as they come."""
        connection = self._connection()
        headers = {"cookie": self.cookie}
        connection.request("GET", f"/api/v1/events?{urlencode(query)}", headers=headers)
        answered = connection.getresponse()
        assert answered.status == 200, answered.read()
        try:
            yield (json.loads(line[6:]) for line in answered if line.startswith(b"data: "))
        finally:
            connection.close()


def console_process(bootstrap: str, folder: Path, *options: str) -> tuple[ServerProcess, int]:
    """A console that is not started yet, and its port."""
    port = free_port()
    command = [sys.executable, "-m", "sharegroup", "console", f"{HOST}:{port}", "-b", bootstrap]
    process = ServerProcess(
        [*command, *options],
        log_path=folder / "console.log",
        environment={"PYTHONPATH": str(SOURCE)},
    )
    return process, port


def patience(folder: Path) -> str:
    """A file that lets the console give up soon."""
    file = folder / "console.properties"
    file.write_text("request.timeout.ms=1000\n")
    return str(file)


@contextmanager
def console(bootstrap: str, folder: Path, *options: str) -> Iterator[Console]:
    """A console over a broker."""
    process, port = console_process(bootstrap, folder, *options)
    process.start()
    try:
        process.wait_until(lambda: "Ctrl-C ends it" in process.output(), timeout_s=START_S)
        yield Console(port)
    finally:
        process.kill()
