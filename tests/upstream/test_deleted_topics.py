"""A topic that the cluster deletes while members wait for its records."""

from __future__ import annotations

import pytest

from tests.foreign.share_reader import receive_accepting, share_consumer
from tests.servers import admin
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process


def test_what_a_group_has_in_memory_of_it_is_given_up(
    cluster: RunningServer, node: SharegroupServer
) -> None:
    theirs = admin.Admin(cluster.bootstrap)
    theirs.create_topic("short")
    admin.Admin(node.bootstrap).start_group_at_earliest("waiters")
    admin.produce(cluster.bootstrap, "short", [b"1"])
    with share_consumer(node.bootstrap, "waiters", "short", explicit=False) as consumer:
        assert receive_accepting(consumer, 1) == [b"1"]
        theirs.delete_topic("short")
        node.process.wait_until(
            lambda: "is fenced: the topic is deleted" in node.output(), timeout_s=60
        )
