"""Moves between two machines, and topics to move."""

from __future__ import annotations

from sharegroup import TopicPartition, sync
from sharegroup.client import AckType
from tests.cli.command import Commands, Finished
from tests.move.queue import work
from tests.servers import admin
from tests.servers.sharegroup_server import SharegroupServer

ACCEPT = AckType.ACCEPT


def move(source: SharegroupServer, target: SharegroupServer, *words: str) -> Finished:
    sides = ("--from", source.bootstrap, "--to", target.bootstrap)
    return Commands(source.bootstrap).run("move", *sides, *words)


def end(bootstrap: str, topic: str) -> int:
    """Where the first partition ends; 0 without a topic."""
    where = TopicPartition(topic, 0)
    with sync.Admin(bootstrap) as client:
        if topic not in {one.name for one in client.list_topics()}:
            return 0
        return client.list_offsets([where])[where].offset


def worked_on(bootstrap: str, topic: str, **configs: str) -> None:
    """A topic with ten records, of which a group of its name has accepted three."""
    admin.Admin(bootstrap).create_topic(topic, 1, **configs)
    admin.produce(bootstrap, topic, [b"%d" % n for n in range(10)])
    admin.Admin(bootstrap).start_group_at_earliest(topic)
    work(bootstrap, topic, topic, {b"0": [ACCEPT], b"2": [ACCEPT], b"5": [ACCEPT]})
