"""The console in Debian's Chromium, as a user sees it. Needs `apt-get install chromium
chromium-driver`; without them these tests are skipped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from sharegroup import Admin, Producer, ShareConsumer
from tests.client.dead_letters import said as said_of_letter
from tests.console.browser import browser, new_tab, there_is_one, wait_for
from tests.console.members import polled
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
SAID = "document.querySelector('dialog p').innerText"
"""What the dialog says that an act would change, or has changed."""


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


@pytest.fixture(scope="module")
def light() -> Iterator[Chrome]:
    with browser(1000, 800) as window:
        yield window


@pytest.fixture(scope="module")
def dark() -> Iterator[Chrome]:
    with browser(1000, 800, "--blink-settings=preferredColorScheme=0") as window:
        yield window


@pytest.fixture
def opened(light: Chrome) -> Iterator[Chrome]:
    """A new tab, without cookies."""
    new_tab(light)
    yield light
    assert light.get_log("browser") == [], "errors, or breaches of the content security policy"


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


def act_button(opened: Chrome, address: str, key: str) -> None:
    """Open a page and press one of its buttons."""
    opened.get(address)
    wait_for(opened, f"return document.querySelector('[data-key=\"{key}\"]') !== null")
    opened.execute_script(f"document.querySelector('[data-key=\"{key}\"]').click()")
    wait_for(opened, f"return {SAID} !== '…'")


def test_a_preview_follows_what_is_typed_and_one_enter_does_it(
    running: tuple[SharegroupServer, Console], opened: Chrome
) -> None:
    address = f"http://127.0.0.1:{running[1].port}/"
    act_button(opened, address, "create-topic")
    assert opened.execute_script(f"return {SAID}") == "Fill in: Name", "no error before typing"
    name = opened.find_element(By.NAME, "topic")
    name.send_keys("typed")
    wait_for(opened, f"return {SAID} === 'Make the topic typed with 1 partition.'")
    name.send_keys("-more", Keys.ENTER)  # before there is a preview of it
    wait_for(opened, f"return {SAID} === 'The topic typed-more is there.'")
    topics = [one["topic"] for one in running[1].json("topics")["topics"]]
    assert "typed-more" in topics
    assert "typed" not in topics
    assert opened.execute_script("return document.querySelector('dialog .do').hidden")


def test_an_outdated_preview_is_never_done(
    running: tuple[SharegroupServer, Console], opened: Chrome
) -> None:
    act_button(opened, f"http://127.0.0.1:{running[1].port}/", "create-topic")
    name = opened.find_element(By.NAME, "topic")
    name.send_keys("good")
    wait_for(opened, f"return {SAID} === 'Make the topic good with 1 partition.'")
    name.send_keys(" not", Keys.ENTER)
    wait_for(opened, "return document.querySelector('dialog p').className === 'causes'")
    assert opened.execute_script("return document.querySelector('dialog .do').disabled")
    topics = [one["topic"] for one in running[1].json("topics")["topics"]]
    assert not any(one.startswith("good") for one in topics)
    logged = opened.get_log("browser")  # also empties it
    assert all("acts/create-topic" in one["message"] for one in logged)


def test_a_choice_shows_only_its_own_fields(
    running: tuple[SharegroupServer, Console], opened: Chrome
) -> None:
    address = f"http://127.0.0.1:{running[1].port}/?queue=workers"
    act_button(opened, address, "decide jobs 0")
    shown = (
        "return [...document.querySelectorAll('dialog label')].filter((one) => !one.hidden)"
        ".map((one) => one.children[1].name).join()"
    )
    assert opened.execute_script(shown) == "how,first,last"
    Select(opened.find_element(By.NAME, "how")).select_by_value("extend")
    wait_for(opened, f"return {SAID}.includes('for 10m from now on')")
    assert opened.execute_script(shown) == "how,first,last,extend"
    Select(opened.find_element(By.NAME, "how")).select_by_value("archive")
    wait_for(opened, f"return {SAID}.startsWith('Give these records up')")
    assert opened.execute_script(shown) == "how,first,last,reason"


def test_a_topic_is_deleted_by_whoever_types_its_name(
    running: tuple[SharegroupServer, Console], opened: Chrome
) -> None:
    async def make() -> None:
        async with Admin(running[0].bootstrap) as admin:
            await admin.create_topics("gone")

    asyncio.run(make())
    opened.get(f"http://127.0.0.1:{running[1].port}/?topic=gone")
    wait_for(opened, "return document.querySelector('[data-key=delete-topic]') !== null")
    opened.execute_script("document.querySelector('[data-key=delete-topic]').click()")
    wait_for(opened, f"return {SAID}.startsWith('Delete the topic gone: 1 partition')")
    confirm = opened.find_element(By.CSS_SELECTOR, "dialog .do")
    assert not confirm.is_enabled()
    typed = opened.find_element(By.NAME, "typed")
    typed.send_keys("gon", Keys.ENTER)
    wait_for(opened, "return document.querySelector('dialog .do').disabled")
    assert opened.execute_script(f"return {SAID}").startswith("Delete the topic gone")
    typed.send_keys("e", Keys.ENTER)
    wait_for(opened, f"return {SAID} === 'gone is deleted.'")


def test_queues_say_what_is_wrong_the_worst_first(
    running: tuple[SharegroupServer, Console], opened: Chrome
) -> None:
    running[1].act("pause", group="workers", do=True)
    opened.get(f"http://127.0.0.1:{running[1].port}/")
    row = "[...document.querySelectorAll('#queues tbody tr')].map((one) => one.cells[1].innerText)"
    wait_for(opened, f"const all = {row}; return all.includes('paused') && all.length > 1")
    found = opened.execute_script(f"return {row}")
    assert found.index("no member") < found.index("paused")
    running[1].act("resume", group="workers", do=True)


def test_a_record_that_is_held_leads_to_its_member_and_is_decided(
    running: tuple[SharegroupServer, Console], opened: Chrome
) -> None:
    server, started = running
    address = f"http://127.0.0.1:{started.port}"

    async def hold() -> None:
        async with Admin(server.bootstrap) as admin, Producer(server.bootstrap) as producer:
            await admin.create_topics("kept")
            await admin.alter_configs("group", "keeper", {"share.auto.offset.reset": "earliest"})
            await producer.send("kept", "x")
        async with ShareConsumer(
            "kept",
            group_id="keeper",
            client_id="worker-hold",
            bootstrap_servers=server.bootstrap,
            acknowledgement_mode="explicit",
        ) as consumer:
            await polled(consumer)
            await asyncio.to_thread(look)

    def look() -> None:
        opened.get(f"{address}/?queue=keeper")
        row = (
            "[...document.querySelectorAll('tr')]"
            ".find((one) => one.innerText.startsWith('kept:0@0'))"
        )
        wait_for(opened, f"return {row}.innerText.includes('worker-hold')")
        opened.execute_script(f"{row}.querySelector('a').click()")
        wait_for(opened, "return document.body.innerText.includes('held by\\nworker-hold')")
        text = opened.execute_script("return document.querySelector('main').innerText")
        assert "lock renewed" in text
        opened.execute_script(AXE)
        assert opened.execute_script(FAULTS) == []
        wait_for(opened, "return document.querySelector('#live').innerText === 'live'")
        opened.execute_script("document.querySelector('[data-key=decide]').click()")
        wait_for(opened, f"return {SAID}.startsWith('Let these records be delivered again')")
        Select(opened.find_element(By.NAME, "how")).select_by_value("accept")
        wait_for(opened, f"return {SAID}.startsWith('Finish these records')")
        opened.find_element(By.NAME, "last").send_keys(Keys.ENTER)
        wait_for(opened, f"return {SAID} === 'Finished 1 record (1 of them held).'")
        opened.switch_to.active_element.send_keys(Keys.ENTER)  # Close
        wait_for(opened, "return /state\\n(accepted|finished)/.test(document.body.innerText)")
        wait_for(opened, "return document.querySelector('#live').innerText.startsWith('as of')")

    asyncio.run(hold())


def test_a_record_that_is_held_too_long_is_named(
    running: tuple[SharegroupServer, Console], opened: Chrome
) -> None:
    opened.get(f"http://127.0.0.1:{running[1].port}/")
    said = opened.execute_script(
        "return warnings({ group: 'g', causes: [], more_held: 0, held: [{ topic: 'orders',"
        " partition: 0, first: 40, last: 40, client: 'worker-hold', host: '/10.0.0.7',"
        " member: 'abcdefghij', exact: true, too_long: true,"
        " since_ms: Date.now() - 185000, renewals: 2 }] }).innerHTML"
    )
    assert "offset=40&amp;group=g" in said
    assert "is held for 3 min 5 s by" in said
    assert "<bdi>worker-hold</bdi> at <bdi>10.0.0.7</bdi> <code>abcdefgh</code>" in said
    assert ", lock renewed twice" in said


def test_one_letter_is_redriven_and_a_wrong_expression_keeps_the_list(
    running: tuple[SharegroupServer, Console], opened: Chrome
) -> None:
    server, started = running
    address = f"http://127.0.0.1:{started.port}/?queue=losers&show=dead"

    async def fail() -> None:
        bootstrap = server.bootstrap
        async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
            await admin.create_topics("lost", "dlq.lost")
            named = {"errors.deadletterqueue.topic.name": "dlq.lost"}
            await admin.alter_configs("group", "losers", named)
            for at in range(2):
                headers = said_of_letter("losers", "lost", 0, at, timestamp=1_000, cause="released")
                await producer.send("dlq.lost", f"again {at}", headers=headers)

    asyncio.run(fail())
    letters = "document.querySelectorAll('#letters [data-key^=\"purge 0:\"]').length"
    opened.get(address)
    wait_for(opened, f"return {letters} === 2")
    assert "delivery limit: released" in opened.execute_script("return document.body.innerText")
    field = opened.find_element(By.CSS_SELECTOR, ".filter input")
    field.send_keys("cause = released", Keys.ENTER)
    wait_for(opened, "return document.body.innerText.includes('Write ==')")
    assert opened.execute_script(f"return {letters}") == 2
    many = "document.querySelectorAll('[data-key=redrive], [data-key=purge-letters]').length"
    assert opened.execute_script(f"return {many}") == 0, "they would be about all letters"
    opened.execute_script(AXE)
    assert opened.execute_script(FAULTS) == []
    assert all("where=" in one["message"] for one in opened.get_log("browser"))
    field.clear()
    field.send_keys(Keys.ENTER)
    wait_for(opened, f"return {many} === 2")
    field.send_keys("offset == 7")  # and not pressed Filter
    opened.execute_script("document.querySelector('[data-key=redrive]').click()")
    wait_for(opened, f"return {SAID}.startsWith('No letter to send again')")
    opened.execute_script("document.querySelector('dialog [type=button]').click()")
    opened.execute_script("document.querySelector('[data-key=\"redrive 0:1\"]').click()")
    wait_for(opened, f"return {SAID}.startsWith('Send the records of 1 letter again')")
    opened.execute_script("document.querySelector('dialog .do').click()")
    wait_for(opened, f"return {SAID} === '1 letter redriven. lost:0@0'")
    opened.execute_script("document.querySelector('dialog p a').click()")
    wait_for(opened, "return document.body.innerText.includes('redriven once: it is a copy')")
    opened.get(address)
    wait_for(opened, f"return {letters} === 1")
    opened.execute_script("document.querySelector('#letters td.name a').click()")  # of its cause
    wait_for(opened, f"return location.search.includes('cause') && {letters} === 1")
    opened.get(address + "&where=offset == 1")
    wait_for(opened, "return document.body.innerText.includes('were redriven or purged')")
    assert opened.execute_script("return document.querySelector('[data-key=redrive]').disabled")


def test_a_narrow_window_shows_everything(running: tuple[SharegroupServer, Console]) -> None:
    narrow = {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    with browser(500, 800) as window:  # Chromium makes no narrower window; its device may be
        window.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
        for path in (
            "/",
            "/?queue=workers",
            f"/?topic={TOPIC}",
            f"/?topic={TOPIC}&partition=0&offset=0&group=workers",
        ):
            window.get(f"http://127.0.0.1:{running[1].port}{path}")
            wait_for(window, "return document.querySelector('table') !== null")
            wait_for(window, "return innerWidth === 360 && document.body.scrollWidth <= 360")


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
    running: tuple[SharegroupServer, Console],
    path: str,
    scheme: str,
    request: pytest.FixtureRequest,
) -> None:
    window: Chrome = request.getfixturevalue(scheme)
    new_tab(window)
    address = f"http://127.0.0.1:{running[1].port}"
    window.get(address + ("/?queue=workers" if path == "dialog" else path))
    loaded = "return document.querySelector('table, h2, main p:not(.quiet)') !== null"
    wait_for(window, loaded)
    if path == "dialog":
        wait_for(window, "return document.querySelector('[data-key=fork]') !== null")
        window.execute_script("document.querySelector('[data-key=fork]').click()")
    window.execute_script(AXE)
    assert window.execute_script(FAULTS) == []
    wanted = f"return matchMedia('(prefers-color-scheme: {scheme})').matches"
    assert window.execute_script(wanted) is True
