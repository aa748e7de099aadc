"""Which commit in a checkpoint a batch waits for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import pytest

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.model.ids import TopicPartition
from sharegroup.spark.ack_files import AckOutbox, Inbox
from sharegroup.spark.locations import commit_file

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


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint below the working folder: batch 3 is done, batch 4 runs."""
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "checkpoints" / "orders"
    for name in ("offsets/3", "commits/3", "offsets/4"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).touch()
    return made


def test_a_checkpoint_is_seen_however_its_path_is_written(checkpoint: Path) -> None:
    for given in ("checkpoints/orders", "./checkpoints/orders", str(checkpoint)):
        assert commit_file(given, 4) == str(checkpoint / "commits" / "4")
    assert commit_file(checkpoint.as_uri(), 4) == str(checkpoint / "commits" / "4")


@pytest.mark.parametrize("batch", [3, 5])
def test_a_folder_of_the_same_name_is_not_the_checkpoint(checkpoint: Path, batch: int) -> None:
    """Where Spark's default file system is another one, batch 3 or 5 runs there."""
    for given in ("checkpoints/orders", str(checkpoint)):
        assert commit_file(given, batch) is None


def test_a_checkpoint_in_an_object_store_is_not_seen() -> None:
    assert commit_file("s3://bucket/checkpoint", 4) is None
