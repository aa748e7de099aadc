"""A broker that gives share groups no records of topics that can lose them, and what a member is
told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException

from tests.foreign.share_reader import share_consumer
from tests.servers.sharegroup_server import SharegroupServer

SECONDS = 60


@contextmanager
def refusing(cluster: str, folder: Path) -> Iterator[SharegroupServer]:
    folder.mkdir()
    setting = "upstream.unsafe.topics=refuse"
    with SharegroupServer(folder, setting, arguments=["--upstream", cluster]) as running:
        yield running


def refusal(bootstrap: str, topic: str) -> KafkaError:
    """The error that a member of librdkafka gets."""
    with share_consumer(bootstrap, "readers", topic, explicit=False) as consumer:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            try:
                assert not list(consumer.poll(0.5))
            except KafkaException as error:
                told: KafkaError = error.args[0]
                return told
    raise AssertionError(f"no error in {SECONDS} s")
