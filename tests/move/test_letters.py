"""Dead letters go along: they are about the same records, and what was redriven stays so."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

import pytest
from confluent_kafka import Producer

from sharegroup import TopicPartition, sync
from sharegroup.client import AckType
from sharegroup.move.letters import GONE, of_copies
from sharegroup.move.offset_map import OffsetMap
from sharegroup.records.pure_codec import Fields
from tests.cli.command import Commands
from tests.move.queue import work
from tests.servers import admin
from tests.servers.sharegroup_server import SharegroupServer

WAIT_S = 60
REJECT, ACCEPT = AckType.REJECT, AckType.ACCEPT


def test_letters_name_the_offsets_of_the_copy() -> None:
    places = OffsetMap()
    places.add(10, 5)
    change = of_copies({TopicPartition("jobs", 0): places})

    def named(offset: bytes, topic: bytes = b"jobs") -> bytes | None:
        headers: list[tuple[str, bytes | None]] = [
            ("mine", None),
            ("__dlq.errors.topic", topic),
            ("__dlq.errors.partition", b"0"),
            ("__dlq.errors.offset", offset),
        ]
        changed = change((0, 1, None, b"v", headers))
        assert changed[:4] == (0, 1, None, b"v")
        assert [name for name, _ in changed[4]] == [name for name, _ in headers]
        return dict(changed[4])["__dlq.errors.offset"]

    assert named(b"12") == b"2"
    assert named(b"3") == b"%d" % (GONE - 3)
    assert named(b"4") == b"%d" % (GONE - 4)  # or a redrive would take them for one failure
    assert named(b"%d" % (GONE - 3)) == b"%d" % (GONE - 3)  # moved before
    assert named(b"12", b"elsewhere") == b"12"
    assert named(b"x") == b"x"
    plain: Fields = (0, 1, b"k", b"v", [("h", b"1")])
    assert change(plain) == plain


@pytest.mark.process
def test_letters_go_along(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "to").mkdir()
    with SharegroupServer(tmp_path / "from") as source, SharegroupServer(tmp_path / "to") as target:
        here, there = Commands(source.bootstrap), Commands(target.bootstrap)
        rejected_some(source)
        here.given("groups", "redrive", "clerks", "--max", "1")
        assert len(listed(here)) == 2
        sides = ("--from", source.bootstrap, "--to", target.bootstrap)
        for _ in range(2):  # the second time there is nothing to do
            done = here.run("move", *sides)
            assert done.status == 0, done
        rows = listed(there)
        assert [row["letter"] for row in rows] == [row["letter"] for row in listed(here)]
        assert [row["offset"] for row in rows] == [2, 3]
        assert [row["offset"] for row in listed(here)] == [6, 7]
        redriven = there.given("groups", "redrive", "clerks")
        assert redriven.stdout == "2 letters redriven\n"
        found = there.ok("consume", "orders", "--peek", "--until", "latest").stdout
        assert found.splitlines()[-3:] == ["order 1", "order 2", "order 3"]
        again = here.run("move", *sides)
        assert again.status == 1
        assert "orders-0 at " in again.stderr


def listed(commands: Commands) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = commands.given(
        "dead", "list", "clerks", "--each", "--json"
    ).json
    return rows


def rejected_some(source: SharegroupServer) -> None:
    """Four orders behind an aborted transaction, of which three have dead letters without a
    copy."""
    setting = admin.Admin(source.bootstrap)
    setting.create_topic("orders")
    setting.create_topic("dlq.dead", 1, errors_deadletterqueue_group_enable="true")
    names = {"transactional.id": "till", "bootstrap.servers": source.bootstrap}
    producer = Producer({**names, **admin.SILENT})
    producer.init_transactions(60)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce("orders", b"void")
    producer.flush(60)
    producer.abort_transaction(60)
    orders = [b"order %d" % n for n in range(4)]
    admin.produce(source.bootstrap, "orders", orders)
    setting.start_group_at_earliest("clerks")
    setting.set_group(
        "clerks",
        share_isolation_level="read_committed",
        errors_deadletterqueue_topic_name="dlq.dead",
    )
    work(
        source.bootstrap,
        "clerks",
        "orders",
        {orders[0]: [ACCEPT], **{one: [REJECT] for one in orders[1:]}},
    )
    deadline = monotonic() + WAIT_S
    with sync.Admin(source.bootstrap) as client:
        where = TopicPartition("dlq.dead", 0)
        while client.list_offsets([where])[where].offset < 3:
            assert monotonic() < deadline, "the letters are not written"
