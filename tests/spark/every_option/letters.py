"""Cases of ``spark.read`` of dead letters."""

from __future__ import annotations

from sharegroup import sync
from sharegroup.spark import redrive
from tests.client.dead_letters import said
from tests.spark.every_option.work import SERVERS, Work


def chosen_letters_and_back(work: Work) -> None:
    topic = work.topic(20)
    letters = work.topic()
    with sync.Producer(work.bootstrap) as producer:
        for number in range(20):
            headers = said("workers", topic, 0, number, message=f"no. {number}")
            producer.enqueue(letters, b"%d" % number, headers=headers, partition=0)
    given = {
        SERVERS: work.bootstrap,
        "deadLettersOf": "workers",
        "deadLetterTopic": letters,
        "where": 'message matches "1"',
        "maxRecordsPerPartition": "5",
        "kafka.client.id": "a-look-at-letters",
        "kafka.request.timeout.ms": "20000",
    }
    rows = work.letters(given)
    assert rows.rdd.getNumPartitions() == 4
    assert sorted(row.offset for row in rows.collect()) == [1, *range(10, 20)]
    assert redrive(rows.where("offset > 9"), given).done == 10
    left = work.letters(given)  # the rows of a DataFrame are planned once
    assert [row.reason for row in left.collect()] == ["no. 1"]


CASES = (chosen_letters_and_back,)
