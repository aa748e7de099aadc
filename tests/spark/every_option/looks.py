"""Cases of ``spark.read``, which looks at a queue."""

from __future__ import annotations

import json

from sharegroup import sync
from sharegroup.model.ids import TopicPartition
from tests.spark.every_option.work import PARTITIONS, SERVERS, Work


def queue(work: Work, records: int) -> str:
    """A topic with so many records, and a group that begins at the first."""
    topic = work.topic(records)
    with sync.Admin(work.bootstrap) as admin:
        first = {TopicPartition(topic, number): 0 for number in range(PARTITIONS)}
        admin.alter_share_group_offsets(topic, first)
    return topic


def headers_and_states(work: Work) -> None:
    topic = queue(work, 0)
    work.produce(topic, "a", headers=[("trace", b"1"), ("empty", None)])
    given = {"includeHeaders": "true", "includeTimestampType": "true", "states": "all"}
    rows = work.look(work.options(topic, **given))
    assert rows.columns[-5:] == ["headers", "delivery_count", "state", "member_id", "lock_ms"]
    (row,) = rows.collect()
    assert [(one.key, one.value) for one in row.headers] == [("trace", b"1"), ("empty", None)]
    assert (row.value, row.timestampType, row.state) == (b"a", 0, "available")
    assert [one.trace for one in rows.selectExpr("headers[0].value AS trace").collect()] == [b"1"]


def a_part_of_the_queue(work: Work) -> None:
    topic = queue(work, 20)
    given = {
        SERVERS: work.bootstrap,
        "kafka.share.group.id": topic,
        "subscribePattern": topic,
        "states": "available",
        "startingOffsets": json.dumps({topic: {"0": 2}}),
        "endingOffsets": json.dumps({topic: {"0": 9}}),
        "maxRecordsPerTopicPartition": "4",
    }
    found = work.look(given).select("partition", "offset").collect()
    assert sorted(row.offset for row in found if row.partition == 0) == [2, 3, 4, 5]
    assert sorted(row.offset for row in found if row.partition == 1) == [0, 1, 2, 3]


def the_number_of_tasks(work: Work) -> None:
    topic = queue(work, 40)
    everything = work.options(topic, states="all")
    assert work.look({**everything, "minPartitions": "8"}).rdd.getNumPartitions() == 8
    cut = work.look({**everything, "maxRecordsPerPartition": "4"})
    assert (cut.rdd.getNumPartitions(), cut.count()) == (40 // 4, 40)


def records_that_are_there(work: Work) -> None:
    topic = queue(work, 10)
    given = {
        "states": "all",
        "failOnDataLoss": "false",
        "kafkaConsumer.pollTimeoutMs": "20000",
        "kafka.client.id": "a-look",
        "kafka.request.timeout.ms": "20000",
    }
    assert work.look(work.options(topic, **given)).count() == 5 * PARTITIONS


CASES = (headers_and_states, a_part_of_the_queue, the_number_of_tasks, records_that_are_there)
