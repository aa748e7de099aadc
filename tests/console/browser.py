"""Debian's Chromium without a window, driven by Selenium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from selenium.common.exceptions import JavascriptException, TimeoutException
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.support.ui import WebDriverWait

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
WAIT_S: Final = 60


def there_is_one() -> bool:
    """Whether Chromium and its driver are installed."""
    return all(shutil.which(name) is not None for name in (CHROMIUM, DRIVER))


@contextmanager
def browser(width: int, height: int, *options: str) -> Iterator[Chrome]:
    """A browser with one window, whose profile is thrown away."""
    wanted = ChromeOptions()
    wanted.binary_location = str(shutil.which(CHROMIUM))
    for option in (*OPTIONS, f"--window-size={width},{height}", *options):
        wanted.add_argument(option)
    # Both paths are given: Selenium would look for others in the network.
    service = ChromeService(executable_path=shutil.which(DRIVER))
    window = Chrome(options=wanted, service=service)
    try:
        yield window
    finally:
        window.quit()


def new_tab(window: Chrome) -> None:
    """Go on in another tab, without the cookies and the log of this one, which is closed."""
    window.delete_all_cookies()
    window.get_log("browser")
    before = window.current_window_handle
    window.switch_to.new_window("tab")
    after = window.current_window_handle
    window.switch_to.window(before)
    window.close()
    window.switch_to.window(after)


def wait_for(window: Chrome, script: str) -> None:
    """Until the body of a function returns something true in the page, which may be loading."""

    def holds(window: Chrome) -> bool:
        return bool(window.execute_script(script))

    waiting = WebDriverWait(window, WAIT_S, 0.02, ignored_exceptions=[JavascriptException])
    try:
        waiting.until(holds)
    except TimeoutException:
        pytest.fail(str(window.execute_script("return document.documentElement.innerText")))
