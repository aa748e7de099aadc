"""The console in Debian's Chromium, as a user sees it. Needs `apt-get install chromium
chromium-driver`; without them these tests are skipped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from selenium.common.exceptions import JavascriptException, TimeoutException
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

from sharegroup import Admin, Producer, ShareConsumer
from tests.console.browser import browser, there_is_one
from tests.console.oidc import TokenServer, provider, settings
from tests.console.running import Console, console
from tests.console.secured import PASSWORDS, SecuredServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not there_is_one(), reason="no chromium and chromium-driver here"),
]

HOSTILE = '<img src=x onerror="document.title=1">\u202e'
TOPIC = "jobs"
AXE = (Path(__file__).parent / "axe.min.js").read_text()
"""axe-core 4.14.1 (npm), which finds what people with disabilities cannot use."""
FAULTS = """
return axe.run(document).then((found) => found.violations
  .filter((one) => ["serious", "critical"].includes(one.impact))
  .map((one) => one.id + ": " + one.nodes.map((node) => node.html).join(" ")))
"""
FILL = """
document.querySelector('[name=user]').value = '{user}'
document.querySelector('[name=password]').value = '{password}'
document.querySelector('form.login button').click()
"""
WAIT_S = 60


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SharegroupServer, Console]]:
    folder = tmp_path_factory.mktemp("browser")
    with (
        SharegroupServer(folder) as server,
        console(server.bootstrap, folder, "--acts") as started,
    ):
        asyncio.run(prepare(server.bootstrap))
        yield server, started


async def prepare(bootstrap: str) -> None:
    """A group with a hostile name that has accepted one record, and a harmless one."""
    async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        await admin.create_topics(TOPIC)
        for group in (HOSTILE, "workers"):
            await admin.alter_configs("group", group, {"share.auto.offset.reset": "earliest"})
        for _ in range(5):
            await producer.send(TOPIC, HOSTILE, key=HOSTILE, headers=[(HOSTILE, b"x")])
    for group in (HOSTILE, "workers"):
        async with ShareConsumer(
            TOPIC,
            group_id=group,
            bootstrap_servers=bootstrap,
            acknowledgement_mode="explicit",
            acquire_mode="record_limit",
            max_poll_records=1,
        ) as consumer:
            while not (records := await consumer.poll()):
                continue
            consumer.accept(*records)


@pytest.fixture
def opened() -> Iterator[Chrome]:
    with browser(1000, 800) as window:
        yield window
        assert window.get_log("browser") == [], "errors, or breaches of the content security policy"


def wait_for(window: Chrome, script: str) -> None:
    """Until the body of a function returns something true in the page, which may be loading."""

    def holds(window: Chrome) -> bool:
        return bool(window.execute_script(script))

    waiting = WebDriverWait(window, WAIT_S, 0.02, ignored_exceptions=[JavascriptException])
    try:
        waiting.until(holds)
    except TimeoutException:
        pytest.fail(str(window.execute_script("return document.documentElement.innerText")))


def test_queues_are_listed_found_and_opened(
    running: tuple[SharegroupServer, Console], opened: Chrome
) -> None:
    address = f"http://127.0.0.1:{running[1].port}"
    opened.get(f"{address}/?search=work")
    wait_for(opened, "return document.querySelectorAll('#queues tbody tr').length === 1")
    assert opened.execute_script(
        "return document.querySelector('#queues tbody').innerText"
    ).startswith("workers")
    opened.execute_script("document.querySelector('#queues tbody a').click()")
    wait_for(opened, "return document.title.startsWith('workers')")
    wait_for(opened, "return document.body.innerText.includes('No member consumes')")
    numbers = opened.execute_script(
        "return [...document.querySelectorAll('.numbers div')].map((one) => one.innerText)"
    )
    assert "ready\n4" in numbers


def test_what_comes_is_seen_without_a_reload(
    running: tuple[SharegroupServer, Console], opened: Chrome
) -> None:
    server, started = running

    async def send() -> None:
        async with Producer(server.bootstrap) as producer:
            await producer.send("more", "x")
        async with ShareConsumer("more", group_id="new", bootstrap_servers=server.bootstrap) as one:
            await one.poll(100)

    opened.get(f"http://127.0.0.1:{started.port}/")
    wait_for(opened, "return document.querySelectorAll('#queues tbody tr').length > 0")
    asyncio.run(send())
    wait_for(opened, "return document.querySelector('#queues').innerText.includes('new')")


def test_names_and_values_are_text(
    running: tuple[SharegroupServer, Console], opened: Chrome
) -> None:
    """No markup of a record or a name is markup of the page, and what turns text is shown."""
    address = f"http://127.0.0.1:{running[1].port}"
    opened.get(address)
    wait_for(opened, "return document.querySelectorAll('#queues tbody tr').length > 1")
    opened.execute_script(
        "const links = [...document.querySelectorAll('#queues a')];"
        "links.find((one) => one.innerText.includes('img')).click()"
    )
    wait_for(opened, "return document.querySelector('table') !== null")
    opened.get(f"{address}/?topic={TOPIC}&partition=0&offset=2")
    wait_for(opened, "return document.querySelector('pre') !== null")
    assert opened.execute_script("return document.querySelectorAll('img').length") == 0
    shown = opened.execute_script("return document.querySelector('pre').innerText")
    assert shown == HOSTILE.replace("\u202e", "\\u202e")
    assert opened.execute_script("return document.title") != "1"


def test_an_act_shows_what_it_will_change_and_asks(
    running: tuple[SharegroupServer, Console], opened: Chrome
) -> None:
    opened.get(f"http://127.0.0.1:{running[1].port}/?queue=workers")
    wait_for(opened, "return document.querySelector('[data-key=pause]') !== null")
    opened.execute_script("document.querySelector('[data-key=pause]').click()")
    said = "return document.querySelector('dialog p').innerText"
    wait_for(opened, f"{said}.startsWith('Deliver no records to workers')")
    assert running[1].json("queue", group="workers")["paused"] is False
    opened.execute_script("document.querySelector('dialog button.do').click()")
    wait_for(opened, f"{said} === 'workers is paused.'")
    assert running[1].json("queue", group="workers")["paused"] is True
    opened.execute_script("document.querySelector('dialog .buttons button').click()")
    wait_for(opened, "return document.querySelector('[data-key=resume]') !== null")
    opened.execute_script("document.querySelector('[data-key=resume]').focus()")
    opened.execute_script("window.before = document.querySelector('[data-key=resume]')")
    wait_for(opened, "return document.querySelector('[data-key=resume]') !== window.before")
    assert opened.execute_script("return document.activeElement.dataset.key") == "resume", (
        "focus stays"
    )
    running[1].act("resume", group="workers", do=True)


def test_a_narrow_window_shows_everything(running: tuple[SharegroupServer, Console]) -> None:
    with browser(500, 800) as window:  # Chromium makes no narrower window; the page is
        for path in ("/", "/?queue=workers", f"/?topic={TOPIC}&partition=0&offset=0"):
            window.get(f"http://127.0.0.1:{running[1].port}{path}")
            wait_for(window, "return document.querySelector('table') !== null")
            window.execute_script("document.documentElement.style.width = '360px'")
            wait_for(window, "return document.body.scrollWidth <= 360")


def test_a_login_leads_to_what_was_asked_for(tmp_path: Path) -> None:
    with (
        SecuredServer(tmp_path) as server,
        console(server.secured, tmp_path, "--login") as started,
        browser(1000, 800) as window,
    ):
        asyncio.run(prepare(server.bootstrap))
        window.get(f"http://127.0.0.1:{started.port}/?queue=workers")
        wait_for(window, "return document.querySelector('form.login') !== null")
        window.execute_script(FILL.format(user="alice", password="wrong"))
        wait_for(window, "return document.body.innerText.includes('refuses this login')")
        window.execute_script(FILL.format(user="alice", password=PASSWORDS["alice"]))
        wait_for(window, "return document.body.innerText.includes('No member consumes')")
        assert "alice" in window.execute_script("return document.querySelector('#about').innerText")
        window.execute_script("document.querySelector('[data-key=pause]').click()")
        said = "return document.querySelector('dialog p').innerText"
        wait_for(window, f"{said}.startsWith('Deliver no records to workers')")
        window.execute_script("document.querySelector('[data-key=logout]').click()")
        wait_for(window, "return document.querySelector('form.login') !== null")
        breaches = [one for one in window.get_log("browser") if "401" not in one["message"]]
        assert breaches == []


def test_a_login_at_a_provider_leads_to_what_was_asked_for(tmp_path: Path) -> None:
    with ExitStack() as stack:
        issuer = stack.enter_context(provider(tmp_path))
        server = stack.enter_context(TokenServer(tmp_path, issuer))
        asyncio.run(prepare(server.bootstrap))
        file = str(settings(tmp_path, issuer))
        started = stack.enter_context(console(server.secured, tmp_path, "--login-oidc", file))
        window = stack.enter_context(browser(1000, 800))
        window.get(f"http://127.0.0.1:{started.port}/?queue=workers")
        wait_for(window, "return document.querySelector('.login a') !== null")
        window.execute_script("document.querySelector('.login a').click()")
        wait_for(window, "return document.querySelector('input[name=sub]') !== null")
        window.execute_script(
            "const sub = document.querySelector('input[name=sub]');"
            "sub.value = 'alice'; sub.form.querySelector('[type=submit]').click()"
        )
        wait_for(window, "return document.body.innerText.includes('No member consumes')")
        assert "alice" in window.execute_script("return document.querySelector('#about').innerText")
        assert window.current_url.endswith("/?queue=workers")
        window.execute_script("document.querySelector('[data-key=logout]').click()")
        wait_for(window, "return document.querySelector('.login a') !== null")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/?queue=workers",
        "/?queue=workers&show=dead",
        "/?show=spark",
        f"/?topic={TOPIC}",
        f"/?topic={TOPIC}&partition=0&offset=0&group=workers",
        "dialog",
    ],
)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_it(
    running: tuple[SharegroupServer, Console], path: str, scheme: str
) -> None:
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    address = f"http://127.0.0.1:{running[1].port}"
    with browser(1000, 800, *dark) as window:
        window.get(address + ("/?queue=workers" if path == "dialog" else path))
        loaded = "return document.querySelector('table, h2, main > p:not(.quiet)') !== null"
        wait_for(window, loaded)
        if path == "dialog":
            wait_for(window, "return document.querySelector('[data-key=fork]') !== null")
            window.execute_script("document.querySelector('[data-key=fork]').click()")
        window.execute_script(AXE)
        assert window.execute_script(FAULTS) == []
        wanted = f"return matchMedia('(prefers-color-scheme: {scheme})').matches"
        assert window.execute_script(wanted) is True
