"""What an operator does from the page: first what it would change, then the change."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator

import pytest

from sharegroup import Admin, Producer
from sharegroup.console.limits import BODY_BYTES_MAX, TEXT_MAX
from tests.client.dead_letters import said
from tests.console.members import member, polled
from tests.console.running import Console, console
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process
ACT = {"x-sharegroup-act": "1"}
numbers = itertools.count()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SharegroupServer, Console]]:
    folder = tmp_path_factory.mktemp("acts")
    with (
        SharegroupServer(folder) as server,
        console(server.bootstrap, folder, "--acts") as started,
    ):
        yield server, started


@pytest.fixture
def queue(running: tuple[SharegroupServer, Console]) -> tuple[str, str, str]:
    """The broker, a topic with ten records, and a group that has accepted the first two."""
    bootstrap, number = running[0].bootstrap, next(numbers)
    topic, group = f"jobs-{number}", f"workers-{number}"

    async def prepare() -> None:
        async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
            await admin.create_topics(topic)
            await admin.alter_configs("group", group, {"share.auto.offset.reset": "earliest"})
            for at in range(10):
                await producer.send(topic, str(at))
        async with member(bootstrap, topic, group, 2) as first:
            first.accept(*await polled(first))

    asyncio.run(prepare())
    return bootstrap, topic, group


def test_a_group_is_paused_and_resumed(
    running: tuple[SharegroupServer, Console], queue: tuple[str, str, str]
) -> None:
    page, group = running[1], queue[2]
    assert f"Deliver no records to {group}" in page.act("pause", group=group)
    assert page.json("queue", group=group)["paused"] is False
    assert page.act("pause", group=group, do=True) == f"{group} is paused."
    shown = page.json("queue", group=group)
    assert shown["paused"] is True
    assert shown["causes"][0].startswith("The group is paused")
    assert "again" in page.act("resume", group=group)
    page.act("resume", group=group, do=True)
    assert page.json("queue", group=group)["paused"] is False


def test_single_records_are_decided(
    running: tuple[SharegroupServer, Console], queue: tuple[str, str, str]
) -> None:
    page, (bootstrap, topic, group) = running[1], queue
    where = {"group": group, "topic": topic, "partition": 0}

    async def hold() -> None:
        async with member(bootstrap, topic, group, 2) as holder:
            await polled(holder)
            said = page.act("decide", **where, first=2, last=2, how="accept")
            assert "offsets 2 to 2" in said
            assert page.json("queue", group=group)["in_flight"] == 2
            done = page.act("decide", **where, first=2, last=2, how="accept", do=True)
            assert done == "Finished 1 record (1 of them held)."
            page.act("decide", **where, first=3, last=3, how="release", do=True)
            told = page.told("decide", **where, first=4, last=5, how="archive", reason="old")
            assert "no letter is written" in told["warning"]
            page.act("decide", **where, first=4, last=5, how="archive", reason="old", do=True)

    asyncio.run(hold())
    shown = page.json("queue", group=group)
    assert (shown["lag"], shown["in_flight"]) == (5, 0)


def test_what_is_not_finished_is_purged(
    running: tuple[SharegroupServer, Console], queue: tuple[str, str, str]
) -> None:
    page, group = running[1], queue[2]
    assert "of 8 records" in page.act("purge", group=group)
    assert page.act("purge", group=group, older_than="1h", do=True).startswith("0 records")
    assert page.act("purge", group=group, do=True) == f"8 records purged from {group}."
    assert page.json("queue", group=group)["lag"] == 0


def test_a_purge_says_what_it_is_about_before_anything_is_finished(
    running: tuple[SharegroupServer, Console], queue: tuple[str, str, str]
) -> None:
    """The broker tells no lag then, only where the group begins."""
    page, (bootstrap, topic, group) = running[1], queue
    other = f"{group}-other"

    async def hold() -> None:
        async with Admin(bootstrap) as admin:
            await admin.alter_configs("group", other, {"share.auto.offset.reset": "earliest"})
        async with member(bootstrap, topic, other, 2) as holder:
            await polled(holder)
            assert "of 10 records" in page.act("purge", group=other)
            assert page.act("purge", group=other, do=True).startswith("10 records (2 of them held)")

    asyncio.run(hold())


def test_a_second_group_begins_where_the_first_one_stands(
    running: tuple[SharegroupServer, Console], queue: tuple[str, str, str]
) -> None:
    page, group = running[1], queue[2]
    fork = f"{group}-fork"
    assert fork in page.act("fork", group=group, to=fork)
    page.json("queue", group=fork, status=404)
    assert page.act("fork", group=group, to=fork, do=True).endswith("in 1 partition.")
    assert page.json("queue", group=fork)["lag"] == 8


def test_dead_letters_are_redriven_and_purged(
    running: tuple[SharegroupServer, Console], queue: tuple[str, str, str]
) -> None:
    page, (bootstrap, topic, group) = running[1], queue
    dead = f"dlq.{topic}"

    async def prepare() -> None:
        async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
            await admin.create_topics(dead)
            name = "errors.deadletterqueue.topic.name"
            await admin.alter_configs("group", group, {name: dead})
            for at in range(4):
                headers = said(group, topic, 0, at, timestamp=1_000, cause="rejected")
                await producer.send(dead, f"again {at}", headers=headers)

    asyncio.run(prepare())
    assert "records of 4 letters" in page.act("redrive", group=group)
    only = {"group": group, "where": "offset < 1"}
    assert "records of 1 letter again" in page.act("redrive", **only)
    assert len(page.json("dead", group=group)["letters"]) == 4
    told = page.told("redrive", **only, do=True)
    assert told["said"] == "1 letter redriven."
    assert told["records"] == [{"topic": topic, "partition": 0, "offset": 10}]
    assert page.json("record", topic=topic, partition=0, offset=10)["value"]["text"] == "again 0"
    assert "Mark 3 letters" in page.act("purge-letters", group=group)
    assert page.act("purge-letters", group=group, do=True) == "3 letters purged."
    assert page.json("dead", group=group)["letters"] == []
    assert page.told("redrive", group=group)["nothing"] is True
    assert page.told("purge-letters", group=group)["nothing"] is True


def test_a_group_begins_elsewhere(
    running: tuple[SharegroupServer, Console], queue: tuple[str, str, str]
) -> None:
    page, (_, topic, group) = running[1], queue
    where = {"group": group, "topic": topic}
    told = page.act("reset", **where, to="earliest")
    assert told.startswith(f"Let {group} begin at {topic}:0@0: 10 records from there on.")
    assert page.json("queue", group=group)["lag"] == 8
    assert page.act("reset", **where, to="latest", do=True) == f"{group} begins at {topic}:0@10."
    assert page.json("queue", group=group)["lag"] == 0
    page.act("reset", **where, to="time", time="2001-01-01T00:00Z", do=True)
    assert page.json("queue", group=group)["lag"] == 10
    told = page.act("reset", **where, to="time", time="2100-01-01 12:30+02:00")
    assert "0 records" in told
    assert told.endswith("The time is 2100-01-01 10:30:00 UTC.")


def test_a_group_with_members_is_not_moved(
    running: tuple[SharegroupServer, Console], queue: tuple[str, str, str]
) -> None:
    page, (bootstrap, topic, group) = running[1], queue

    async def try_it() -> None:
        async with member(bootstrap, topic, group, 1) as holder:
            await polled(holder)
            told = page.told("reset", group=group, topic=topic, to="latest")
            assert told["said"].startswith(f"Let {group} begin at {topic}:0@")
            assert told["warning"].startswith(f"{group} has 1 member: stop its members first")
            assert told["nothing"], "it cannot be done now"
            said = page.act("reset", status=502, group=group, topic=topic, to="latest", do=True)
            assert "not empty" in said

    asyncio.run(try_it())


def test_a_setting_is_set_and_its_default_holds_again(
    running: tuple[SharegroupServer, Console], queue: tuple[str, str, str]
) -> None:
    page, (_, topic, group) = running[1], queue
    lock = {"kind": "group", "of": group, "setting": "share.record.lock.duration.ms"}
    page.act("configure", status=502, **lock, value="1")  # as the broker would refuse it
    page.act("configure", status=502, **lock, value="abc")
    assert page.act("configure", **lock, value="30000") == "It is 30000 already."
    assert page.act("configure", **lock, value="") == "It is 30000 already."
    told = page.act("configure", **lock, value="60000")
    assert told == f"Set {lock['setting']} of the group {group} from 30000 to 60000."
    assert page.act("configure", **lock, value="60000", do=True).endswith("is 60000.")
    limit = {**lock, "setting": "share.delivery.count.limit"}
    assert "from their next start on" in page.told("configure", **limit, value="7")["hint"]
    [shown] = [
        one for one in page.json("queue", group=group)["settings"] if one["name"] == lock["setting"]
    ]
    assert (shown["value"], shown["source"]) == ("60000", "group")
    assert page.act("configure", **lock, value="", do=True).endswith("is 30000.")
    retention = {"kind": "topic", "of": topic, "setting": "retention.ms"}
    assert page.act("configure", **retention, value="1000", do=True).endswith("is 1000.")
    page.act("configure", status=502, **retention, value="soon", do=True)


def test_a_topic_is_made_and_deleted(running: tuple[SharegroupServer, Console]) -> None:
    page = running[1]
    made = {"topic": "made.here", "partitions": 3}
    page.act("create-topic", status=404, topic="made <b>", partitions=1)
    page.act("create-topic", status=404, topic="made <b>", partitions=1, do=True)
    assert page.act("create-topic", **made) == "Make the topic made.here with 3 partitions."
    assert page.act("create-topic", **made, do=True) == "The topic made.here is there."
    assert "already" in page.act("create-topic", status=400, **made)
    shown = page.json("topic", topic="made.here")
    assert [(one["start"], one["end"]) for one in shown["partitions"]] == [(0, 0)] * 3
    assert any(one["name"] == "retention.ms" for one in shown["settings"])
    told = page.act("delete-topic", topic="made.here")
    assert told.startswith("Delete the topic made.here: 3 partitions with 0 records")
    page.act("delete-topic", topic="made.here", do=True)
    page.json("topic", status=404, topic="made.here")


def test_dead_letters_are_set_up_in_one_go(
    running: tuple[SharegroupServer, Console], queue: tuple[str, str, str]
) -> None:
    page, (bootstrap, topic, group) = running[1], queue
    name = {"kind": "group", "of": group, "setting": "errors.deadletterqueue.topic.name"}
    assert "does not begin with 'dlq.'" in page.told("configure", **name, value="dead")["warning"]
    assert "does not exist" in page.told("configure", **name, value=f"dlq.{topic}")["warning"]
    wanted = {"group": group, "topic": f"dlq.{topic}"}
    said = page.act("dead-letters", status=400, group=group, topic="dead")
    assert "must begin with 'dlq.'" in said
    assert page.act("dead-letters", **wanted).startswith(f"Make the topic dlq.{topic}.")
    page.json("topic", status=404, topic=f"dlq.{topic}")
    page.act("dead-letters", **wanted, do=True)
    assert page.told("dead-letters", **wanted)["nothing"] is True

    async def fail() -> None:
        async with member(bootstrap, topic, group, 1) as holder:
            holder.reject(*await polled(holder))

    asyncio.run(fail())
    while not page.json("dead", group=group)["letters"]:
        continue  # they are written beside the answer
    [letter] = page.json("dead", group=group)["letters"]
    assert letter["value"]["text"] == "2"


def test_what_waits_to_be_written_says_why(
    running: tuple[SharegroupServer, Console], queue: tuple[str, str, str]
) -> None:
    page, (bootstrap, topic, group) = running[1], queue
    name = {"kind": "group", "of": group, "setting": "errors.deadletterqueue.topic.name"}
    page.act("configure", **name, value="elsewhere", do=True)

    async def fail() -> None:
        async with member(bootstrap, topic, group, 1) as holder:
            holder.reject(*await polled(holder))

    asyncio.run(fail())
    why = "1 dead letter cannot be written yet: the topic's name elsewhere does not begin with"
    assert any(one.startswith(why) for one in page.json("queue", group=group)["causes"])
    dead = page.json("dead", group=group)
    assert dead["waiting"].startswith(why)
    assert dead["missing"].endswith("does not exist.")
    life = page.json("record", topic=topic, partition=0, offset=2, group=group)["life"]
    assert (life["state"], life["member"]) == ("archiving", None)
    [line] = [one for one in page.json("queues")["queues"] if one["group"] == group]
    assert line["status"]["text"] == "no member"


def test_an_internal_topic_stays_and_groups_of_a_topic_are_named(
    running: tuple[SharegroupServer, Console], queue: tuple[str, str, str]
) -> None:
    page, (_, topic, group) = running[1], queue
    assert group in page.told("delete-topic", topic=topic)["warning"]
    done = "sharegroup.dead-letters.done"
    assert "internal" in page.act("delete-topic", status=400, topic=done, do=True)


def test_letters_are_chosen_and_exported(
    running: tuple[SharegroupServer, Console], queue: tuple[str, str, str]
) -> None:
    """The export can be produced again."""
    page, (bootstrap, topic, group) = running[1], queue
    dead = f"dlq.{topic}"

    async def prepare() -> None:
        async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
            await admin.create_topics(dead)
            name = "errors.deadletterqueue.topic.name"
            await admin.alter_configs("group", group, {name: dead})
            for at in range(3):
                headers = said(group, topic, 0, at, timestamp=1_000, cause="rejected")
                await producer.send(dead, b"\xff" if at else "again", headers=headers)

    asyncio.run(prepare())
    chosen = page.json("dead", group=group, where="offset < 1")
    assert [one["offset"] for one in chosen["letters"]] == [0]
    assert "error" in page.json("dead", status=400, group=group, where="offset <")
    status, headers, body = page.answer(f"/api/v1/letters?group={group}")
    assert (status, headers["content-disposition"][:10]) == (200, "attachment")
    lines = [json.loads(line) for line in body.splitlines()]
    assert [one["value"] for one in lines] == ["again", {"base64": "/w=="}, {"base64": "/w=="}]
    assert page.answer(f"/api/v1/letters?group={group}&where=x")[0] == 400
    assert page.json("progress", group=group) == {"said": None}


@pytest.mark.parametrize(
    ("act", "given", "status", "text"),
    [
        ("pause", {}, 400, "group is missing"),
        ("pause", {"group": 7}, 400, "group is missing"),
        ("pause", {"group": "nobody"}, 404, "nobody"),
        ("purge", {"group": "g", "older_than": "soon"}, 400, "no duration"),
        ("decide", {"group": "g", "topic": "t", "partition": 0, "first": 2, "last": 1,
                    "how": "accept"}, 400, "last is before first"),
        ("decide", {"group": "g", "topic": "t", "partition": 0, "first": 0, "last": True,
                    "how": "accept"}, 400, "last is missing"),
        ("decide", {"group": "g", "topic": "t", "partition": 0, "first": 0, "last": 1,
                    "how": "burn"}, 400, "how is none of"),
        ("burn", {}, 400, "the acts are pause"),
        ("reset", {"group": "g", "topic": "none", "to": "latest"}, 404, "none"),
        ("reset", {"group": "g", "topic": "none", "to": "there"}, 404, "none"),
        ("configure", {"kind": "broker", "of": "0", "setting": "x"}, 400, "kind is neither"),
        ("configure", {"kind": "group", "of": "g", "setting": "x"}, 400, "has no setting x"),
        ("create-topic", {"topic": "t", "partitions": 0}, 400, "1 to 10,000 partitions"),
        ("create-topic", {"topic": "t", "partitions": 10_001}, 400, "1 to 10,000 partitions"),
        ("delete-topic", {"topic": "none"}, 404, "none"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(
    running: tuple[SharegroupServer, Console],
    act: str,
    given: dict[str, object],
    status: int,
    text: str,
) -> None:
    assert text in running[1].act(act, status=status, **given)


def test_a_where_that_cannot_be_read_is_said(
    running: tuple[SharegroupServer, Console], queue: tuple[str, str, str]
) -> None:
    said = running[1].act("redrive", status=400, group=queue[2], where="cause ==")
    assert said


def test_forged_requests_change_nothing(
    running: tuple[SharegroupServer, Console], queue: tuple[str, str, str]
) -> None:
    page, group = running[1], queue[2]
    body = json.dumps({"group": group, "do": True}).encode()
    forged: list[tuple[dict[str, str], int]] = [
        ({}, 403),
        ({"content-type": "text/plain"}, 403),
        ({**ACT, "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}, 403),
        ({**ACT, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 403),
        ({**ACT, "host": "evil.example"}, 421),
    ]
    for headers, status in forged:
        answered = page.answer("/api/v1/acts/pause", method="POST", headers=headers, body=body)
        assert answered[0] == status, headers
    for broken in (b"", b"[]", b"{", b"x" * 70_000, b"[" * 60_000):
        answered = page.answer("/api/v1/acts/pause", method="POST", headers=ACT, body=broken)
        assert answered[0] == 400
    assert page.answer("/api/v1/acts/pause", headers=ACT)[0] == 405
    assert page.json("queue", group=group)["paused"] is False
    assert page.json("about")["acts"] is True


def test_a_body_and_a_text_may_be_so_long_and_no_longer(
    running: tuple[SharegroupServer, Console],
) -> None:
    page = running[1]
    assert "not found" in page.act("pause", status=404, group="g" * TEXT_MAX)
    assert f"at most {TEXT_MAX}" in page.act("pause", status=400, group="g" * (TEXT_MAX + 1))
    for size, text in [(BODY_BYTES_MAX, b"group is missing"), (BODY_BYTES_MAX + 1, b"more than")]:
        body = b"{}" + b" " * (size - 2)
        status, _, answered = page.answer(
            "/api/v1/acts/pause", method="POST", headers=ACT, body=body
        )
        assert status == 400
        assert text in answered
