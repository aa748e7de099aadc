"""Serves a JWKS document over HTTP: the first time at once, later not before it is told."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType

from tests.servers.process import HOST

PATIENCE_S = 120


class JwksServer:
    """``fetched``: how often it was asked."""

    def __init__(self, document: Path) -> None:
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                served.fetched += 1
                if served.fetched > 1:
                    served._slow.wait(PATIENCE_S)
                body = document.read_bytes()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Not to the terminal."""

        self.fetched = 0
        self._slow = threading.Event()
        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://{HOST}:{self._server.server_port}/keys"

    def __enter__(self) -> JwksServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._slow.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
