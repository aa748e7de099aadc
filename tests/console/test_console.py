"""The console over our broker and over Apache Kafka, asked as a browser asks."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sharegroup import Admin, Producer, ShareConsumer
from tests.apache_kafka.broker import KafkaBroker
from tests.client.dead_letters import said as said_of_letter
from tests.console.members import member, polled
from tests.console.running import Console, console, patience
from tests.servers.process import HOST
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SOURCE, SharegroupServer

FILES = {
    "/": "text/html",
    "/acts.js": "text/javascript",
    "/console.js": "text/javascript",
    "/console.css": "text/css",
    "/icon.svg": "image/svg+xml",
}
GROUP, TOPIC = "workers <b>&", "jobs"
LARGE = b"x" * 5_000_000
GIVEN_UP = "Nothing: it was given up (rejected by a member, or given up by an operator)."


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SharegroupServer, Console]]:
    folder = tmp_path_factory.mktemp("console")
    with (
        SharegroupServer(folder, "message.max.bytes=10000000") as server,
        console(server.bootstrap, folder) as running,
    ):
        asyncio.run(prepare(server.bootstrap))
        yield server, running


async def prepare(bootstrap: str, topic: str = TOPIC, group: str = GROUP) -> None:
    """Ten records in a topic of two partitions, and a group that has accepted one of them."""
    async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        await admin.create_topics(topic, partitions=2)
        await admin.alter_configs("group", group, {"share.auto.offset.reset": "earliest"})
        for number in range(10):
            await producer.send(
                topic,
                json.dumps({"number": number}),
                key=f"k{number}",
                headers=[("trace", b"\xff"), ("who", None)],
                partition=0,
            )
    async with member(bootstrap, topic, group, 4) as first:
        records = await polled(first)
        first.accept(records[0])


@pytest.mark.process
class TestOurs:
    """Over our broker."""

    def test_the_page_runs_its_own_script_only(
        self, ours: tuple[SharegroupServer, Console]
    ) -> None:
        for path, kind in FILES.items():
            status, headers, body = ours[1].answer(path)
            assert status == 200
            assert body
            assert headers["content-type"].startswith(kind)
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
        assert b"<script src=" in ours[1].answer("/")[2]
        assert b"<script>" not in ours[1].answer("/")[2]

    def test_what_a_member_holds_is_shown(self, ours: tuple[SharegroupServer, Console]) -> None:
        server, running = ours

        async def scenario() -> None:
            await prepare(server.bootstrap, "held", "holding")
            async with member(server.bootstrap, "held", "holding", 4) as holder:
                records = await polled(holder)
                holder.release(records[0], delay_ms=100_000)
                holder.reject(records[1], reason="no such number")
                await holder.commit()
                await asyncio.to_thread(check)
                holder.release(*records[2:])

        def check() -> None:
            lines = {one["group"]: one for one in running.json("queues")["queues"]}
            line, shown = lines["holding"], running.json("queue", group="holding")
            for each in (line, shown):
                assert each["group"] == "holding"
                assert each["topics"] == ["held"]
                assert (each["lag"], each["ready"]) == (8, 5)
                assert (each["in_flight"], each["delayed"], each["dead"]) == (2, 1, 0)
                assert 0 <= shown["at_ms"] - each["oldest_ms"] < 600_000
            assert line["members"] == 1
            [only] = shown["members"]
            assert (only["holds"], only["partitions"]) == (2, ["held:0", "held:1"])
            assert 0 < only["shortest_lock_ms"] <= 30_000
            lives = {
                at: running.json("record", topic="held", partition=0, offset=at, group="holding")[
                    "life"
                ]
                for at in (0, 1, 2, 3, 6)
            }
            assert [one["state"] for one in lives.values()] == [
                "finished", "delayed", "archived", "acquired", "ready"
            ]  # fmt: skip
            assert (lives[3]["member"], lives[3]["deliveries"]) == (only["member"], 2)
            held = lives[3]["held"]
            assert (held["client"], held["too_long"]) == (only["client"], False)
            assert lives[2]["held"] is lives[6]["held"] is None
            assert sorted(one["first"] for one in shown["held"]) == [3, 4]
            assert lives[2]["next"] == GIVEN_UP
            assert lives[6]["next"].endswith("New ones before it: 1.")
            states = {
                offset: one["state"]
                for one in shown["partitions"][0]["ranges"]
                for offset in range(one["first"], one["last"] + 1)
            }
            assert states == {1: "delayed", 2: "archived", 3: "acquired", 4: "acquired"}
            assert {one["name"]: one for one in shown["settings"]}["share.auto.offset.reset"][
                "value"
            ] == "earliest"

        asyncio.run(scenario())

    def test_a_queue_that_has_finished_nothing_has_a_lag_and_an_age(
        self, ours: tuple[SharegroupServer, Console]
    ) -> None:
        """Of such a queue `groups describe` tells no lag, as Kafka does."""
        server, running = ours

        async def hold() -> None:
            async with Admin(server.bootstrap) as admin:
                await admin.alter_configs("group", "new", {"share.auto.offset.reset": "earliest"})
            async with member(server.bootstrap, TOPIC, "new", 4) as holder:
                await polled(holder)
                await asyncio.to_thread(check)

        def check() -> None:
            lines = {one["group"]: one for one in running.json("queues")["queues"]}
            for each in (lines["new"], running.json("queue", group="new")):
                assert each["lag"] >= 10
                assert each["in_flight"] == 4
                assert each["oldest_ms"] is not None

        asyncio.run(hold())

    def test_events_tell_what_has_changed(self, ours: tuple[SharegroupServer, Console]) -> None:
        server, running = ours

        async def send() -> None:
            async with Producer(server.bootstrap) as producer:
                await producer.send(TOPIC, "more", partition=1)

        with running.events(group=GROUP) as events, running.events() as all_events:
            before = next(events)["lag"]
            lags = (lag_of(one) for one in all_events)
            assert next(lags) == before
            asyncio.run(send())
            assert next(one["lag"] for one in events if one["lag"] != before) == before + 1
            assert next(lag for lag in lags if lag != before) == before + 1

    def test_a_record_is_shown_whole(self, ours: tuple[SharegroupServer, Console]) -> None:
        found = ours[1].json("record", topic=TOPIC, partition=0, offset=3)
        assert (found["offset"], found["key"]["text"]) == (3, "k3")
        assert (found["value"]["form"], json.loads(found["value"]["text"])) == (
            "json",
            {"number": 3},
        )
        assert [(one["name"], one["form"], one["text"]) for one in found["headers"]] == [
            ("trace", "hex", "ff"),
            ("who", "null", ""),
        ]

    def test_a_large_value_is_cut(self, ours: tuple[SharegroupServer, Console]) -> None:
        server, running = ours

        async def send() -> None:
            async with Admin(server.bootstrap) as admin:
                await admin.create_topics("large", configs={"max.message.bytes": "10000000"})
            async with Producer(server.bootstrap, max_request_size=10_000_000) as producer:
                await producer.send("large", LARGE)

        asyncio.run(send())
        value = running.json("record", topic="large", partition=0, offset=0)["value"]
        assert (value["size"], value["cut"], len(value["text"])) == (len(LARGE), True, 65_536)

    @pytest.mark.parametrize(
        ("name", "query", "status", "said"),
        [
            ("queue", {"group": "nobody"}, 404, "nobody"),
            ("queue", {}, 400, "lacks group"),
            ("record", {"topic": TOPIC, "partition": 0, "offset": 99}, 404, "offsets 0 to 9"),
            ("record", {"topic": TOPIC, "partition": 0, "offset": "x"}, 400, "whole number"),
            ("record", {"topic": TOPIC, "partition": 7, "offset": 0}, 404, ""),
            ("record", {"topic": "../x", "partition": 0, "offset": 0}, 404, ""),
        ],
    )
    def test_what_is_not_there_is_said(
        self,
        ours: tuple[SharegroupServer, Console],
        name: str,
        query: dict[str, object],
        status: int,
        said: str,
    ) -> None:
        assert said in ours[1].json(name, status=status, **query)["error"]

    def test_other_origins_get_nothing(self, ours: tuple[SharegroupServer, Console]) -> None:
        answer = ours[1].answer
        path = "/api/v1/queues"
        assert answer(path, headers={"Host": "evil.example"})[0] == 421
        assert answer(path, headers={"Host": f"localhost:{ours[1].port}"})[0] == 200
        assert (
            answer(path, headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"})[0]
            == 403
        )
        assert answer(path, headers={"Sec-Fetch-Site": "same-origin"})[0] == 200
        for method in ("POST", "PUT", "DELETE"):
            assert answer(path, method=method)[0] == 405
        act = {"x-sharegroup-act": "1"}
        assert answer("/api/v1/acts/pause", method="POST", headers=act, body=b"{}")[0] == 405

    def test_dead_letters_are_counted_by_cause(
        self, ours: tuple[SharegroupServer, Console]
    ) -> None:
        server, running = ours
        assert "names no topic for them" in running.json("dead", group=GROUP)["missing"]

        async def fail() -> None:
            async with Admin(server.bootstrap) as admin:
                enable = {"errors.deadletterqueue.group.enable": "true"}
                await admin.create_topics("dlq.late", configs=enable)
                settings = {
                    "share.auto.offset.reset": "earliest",
                    "errors.deadletterqueue.topic.name": "dlq.late",
                    "errors.deadletterqueue.copy.record.enable": "true",
                    "share.release.backoff.ms": "60000",
                }
                await admin.alter_configs("group", "late", settings)
            async with member(server.bootstrap, TOPIC, "late", 3) as late:
                *rejected, released = await polled(late)
                for record in rejected:
                    late.reject(record, reason=f"no <b>customer</b> {record.offset}.")
                late.release(released)

        asyncio.run(fail())
        found = running.json("dead", group="late")
        while len(found["letters"]) < 2:  # they are written beside the answer
            found = running.json("dead", group="late")
        [cause] = found["causes"]
        assert cause["cause"] == "rejected"
        assert cause["message"] == "no <b>customer</b> #.", "numbers do not count"
        again = running.json("dead", group="late", where=cause["where"])
        assert len(again["letters"]) == cause["letters"] == 2
        life = running.json("record", topic=TOPIC, partition=0, offset=2, group="late")["life"]
        assert (life["state"], life["next"].split(",")[0]) == ("delayed", "It rests")
        letter = found["letters"][0]
        assert (letter["topic"], letter["letter"]) == (TOPIC, "0:0")

    def test_the_list_of_dead_letters_has_the_beginning_of_their_records(
        self, ours: tuple[SharegroupServer, Console]
    ) -> None:
        """To write whole ones anew kept the broker waiting, whose event loop may be the same."""
        server, running = ours
        value = "[" * 300 + ",".join("1" * 30_000) + "]" * 300

        async def fail() -> None:
            async with Admin(server.bootstrap) as admin, Producer(server.bootstrap) as producer:
                await admin.create_topics("dlq.large")
                named = {"errors.deadletterqueue.topic.name": "dlq.large"}
                await admin.alter_configs("group", "large", named)
                headers = said_of_letter("large", TOPIC, 0, 0, cause="rejected")
                await producer.send("dlq.large", value, key=b"\xff" * 300, headers=headers)

        asyncio.run(fail())
        [letter] = running.json("dead", group="large")["letters"]
        start = {"form": "text", "text": value[:200], "size": len(value), "cut": True}
        assert letter["value"] == start
        assert letter["key"]["text"] == "ff " * 66 + "ff"

    def test_the_broker_goes_away_and_comes_back(self, tmp_path: Path) -> None:
        server = SharegroupServer(tmp_path)
        server.start()
        with console(server.bootstrap, tmp_path, "--command-config", patience(tmp_path)) as running:
            asyncio.run(prepare_one(server.bootstrap))
            assert len(running.json("queues")["queues"]) == 1
            server.stop()
            assert "error" in running.json("about", status=502)
            server.start()
            assert len(running.json("queues")["queues"]) == 1
        server.kill()

    def test_ctrl_c_ends_it_while_somebody_watches(self, tmp_path: Path) -> None:
        with SharegroupServer(tmp_path) as server:
            command = [sys.executable, "-m", "sharegroup", "console", f"{HOST}:0"]
            environment = {
                **os.environ,
                "PYTHONPATH": str(SOURCE),
                "SHAREGROUP_BOOTSTRAP_SERVER": server.bootstrap,
            }
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
            ) as process:
                try:
                    assert process.stdout is not None
                    port = int(process.stdout.readline().split("/, ")[0].rpartition(":")[2])
                    with Console(port).events() as events:
                        next(events)
                        process.send_signal(signal.SIGINT)
                        _, errors = process.communicate(timeout=60)
                finally:
                    process.kill()
            assert process.returncode == 130
            assert not errors


def lag_of(view: dict[str, Any]) -> int:
    """What the list of all queues says of GROUP."""
    return next(int(one["lag"]) for one in view["queues"] if one["group"] == GROUP)


async def prepare_one(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics(TOPIC)
    async with ShareConsumer(TOPIC, group_id=GROUP, bootstrap_servers=bootstrap) as first:
        await first.poll(100)


@pytest.mark.kafka
def test_apache_kafka_tells_less(tmp_path: Path) -> None:
    """What it cannot tell is null, and the page leaves it out."""

    async def prepared(bootstrap: str) -> None:
        async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
            await admin.create_topics(TOPIC)
            await admin.alter_configs("group", GROUP, {"share.auto.offset.reset": "earliest"})
            for number in range(5):
                await producer.send(TOPIC, str(number))
        async with ShareConsumer(
            TOPIC, group_id=GROUP, bootstrap_servers=bootstrap, acknowledgement_mode="explicit"
        ) as first:
            records = await polled(first)
            first.accept(records[0])

    server: RunningServer = KafkaBroker(tmp_path)
    server.start()
    try:
        asyncio.run(prepared(server.bootstrap))
        with console(server.bootstrap, tmp_path) as running:
            [line] = running.json("queues")["queues"]
            assert (line["group"], line["lag"], line["ready"]) == (GROUP, 4, 4)
            assert (line["paused"], line["status"]["text"]) == (False, "no member")
            assert line["in_flight"] is line["delayed"] is line["oldest_ms"] is None
            shown = running.json("queue", group=GROUP)
            assert shown["partitions"][0]["locks_known"] is False
            assert shown["held"] == []
            assert (
                running.json("record", topic=TOPIC, partition=0, offset=2)["value"]["text"] == "2"
            )
    finally:
        server.kill()
