"""Debian's Chromium without a window, driven by its ChromeDriver over WebDriver's HTTP (W3C)."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.servers.process import HOST, free_port

CHROMIUM: Final = "chromium"
DRIVER: Final = "chromedriver"
OPTIONS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
ANSWER_S: Final = 60


def there_is_one() -> bool:
    """Whether Chromium and its driver are installed."""
    return all(shutil.which(name) is not None for name in (CHROMIUM, DRIVER))


class Browser:
    """A browser with one window."""

    def __init__(self, session: str) -> None:
        self._session = session

    def get(self, address: str) -> None:
        """Open a page."""
        _ask(f"{self._session}/url", {"url": address})

    def run(self, script: str) -> Any:
        """What a function with this body returns in the page."""
        return _ask(f"{self._session}/execute/sync", {"script": script, "args": []})

    def said(self) -> list[Any]:
        """What the page has written to the browser's console since the last call."""
        found: list[Any] = _ask(f"{self._session}/se/log", {"type": "browser"})
        return found

    def screenshot(self) -> bytes:
        """The window as a PNG."""
        return base64.b64decode(_ask(f"{self._session}/screenshot"))


@contextmanager
def browser(width: int, height: int, *options: str) -> Iterator[Browser]:
    """A browser, whose profile is thrown away."""
    port = free_port()
    with subprocess.Popen([DRIVER, f"--port={port}"], stdout=subprocess.PIPE, text=True) as driver:
        try:
            assert driver.stdout is not None
            for line in driver.stdout:
                if "started successfully" in line:
                    break
            arguments = [*OPTIONS, f"--window-size={width},{height}", *options]
            wanted = {"browserName": "chrome", "goog:chromeOptions": {"args": arguments}}
            address = f"http://{HOST}:{port}/session"
            made = _ask(address, {"capabilities": {"alwaysMatch": wanted}})
            session = f"{address}/{made['sessionId']}"
            try:
                yield Browser(session)
            finally:
                _ask(session, method="DELETE")
        finally:
            driver.kill()


def _ask(address: str, body: object = None, *, method: str | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        address, data, {"content-type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
        return json.load(answer)["value"]
