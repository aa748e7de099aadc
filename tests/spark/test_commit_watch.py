"""Which commit in a checkpoint a batch waits for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.model.ids import TopicPartition
from sharegroup.spark.ack_files import AckOutbox, Inbox

DECISIONS = {TopicPartition("orders", 0): [[0, 9, 1, 0]]}


def test_only_decisions_since_the_batch_began_show_its_commit(tmp_path: Path) -> None:
    inbox = Inbox(str(tmp_path), "group", AckType.RELEASE)
    asyncio.run(inbox.open(["orders"]))
    outbox = AckOutbox(str(tmp_path))
    first, second = tmp_path / "commit-0", tmp_path / "commit-1"
    outbox.put(DECISIONS, str(first))
    assert not inbox.committed(["orders"])
    first.touch()
    assert inbox.committed(["orders"])
    inbox.begin()
    assert not inbox.committed(["orders"])
    outbox.put(DECISIONS, str(second))
    assert not inbox.committed(["orders"])
    second.touch()
    assert inbox.committed(["orders"])
    assert not inbox.committed(["others"])
    inbox.take({UUID(int=1): "orders"}, 1)
    inbox.begin()
    assert not inbox.committed(["orders"]), "the files of a settled batch do not count"
