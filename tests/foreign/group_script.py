"""One script of Kafka's group tools, from the first group to the last one deleted.

`run_script` makes the same data on a server and runs every step there; what each step printed is
returned with all that differs by nature masked: ports, member ids, epochs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sharegroup import sync
from tests.foreign.tool_shell import Ran, ToolShell

DAY_MS = 86_400_000
RECORDS = 4
"""In each partition, one on each of the first four days of 1970."""

TOPICS = {"alpha": 3, "beta": 1}
IDLE, BUSY, MADE = "idle", "busy", "made"
WAIT_MS = 120_000


@dataclass(frozen=True, slots=True)
class Step:
    """One command; of what it prints only the lines in which ``kept`` is found are looked at."""

    name: str
    command: str
    kept: str = ""


# A line is `name: command`, or `name: command | regex of the lines to look at`; the tools are
# named without `kafka-`, and `share` is kafka-share-groups.

# While `busy` has a member, and `idle` has none.
WORKING = """
list: share --list
list with state: share --list --state
list empty: share --list --state Empty
list stable and empty: share --list --state stable,empty
list dead: share --list --state Dead
list a state that is none: share --list --state Rebalancing
describe: share --describe --group idle
describe offsets verbosely: share --describe --group idle --offsets --verbose
describe several: share --describe --group idle --group busy
describe offsets of all: share --describe --all-groups --offsets
describe state: share --describe --group idle --state
describe state verbosely: share --describe --group busy --state --verbose
describe states of all: share --describe --all-groups --state
describe members of none: share --describe --group idle --members
describe members: share --describe --group busy --members
describe members verbosely: share --describe --group busy --members --verbose
describe members of all: share --describe --all-groups --members
describe a group that is not: share --describe --group nobody
describe members of a group that is not: share --describe --group nobody --members
describe the state of a group that is not: share --describe --group nobody --state
describe with one that is not: share --describe --group idle --group nobody --state
reset one at work: share --reset-offsets --group busy --all-topics --to-earliest --execute
plan for one at work: share --reset-offsets --group busy --all-topics --to-earliest --dry-run
delete offsets of one at work: share --delete-offsets --group busy --topic alpha
delete one at work: share --delete --group busy
make a spare one: share --reset-offsets --group spare --topic beta --to-latest --execute
delete a spare one and one at work: share --delete --group spare --group busy
delete one that is not: share --delete --group nobody
groups: groups --list
share groups: groups --list --share
consumer groups: groups --list --consumer
groups by type: groups --list --group-type share
groups by protocol: groups --list --protocol share
features: features describe | share.version
consumer groups by their own tool: consumer-groups --list
consumer groups with state: consumer-groups --list --state
a share group is no consumer group: consumer-groups --describe --group idle
"""

# When everybody is gone.
RESTING = """
plan earliest: share --reset-offsets --group idle --topic alpha --to-earliest --dry-run
a plan changes nothing: share --describe --group idle
plan latest of all topics: share --reset-offsets --group idle --all-topics --to-latest --dry-run
reset latest: share --reset-offsets --group idle --topic alpha --to-latest --execute
latest has no lag: share --describe --group idle
reset partitions: share --reset-offsets --group idle --topic alpha:0,2 --to-earliest --execute
some were reset: share --describe --group idle --verbose
reset to a time: share --reset-offsets --group idle --topic alpha:0 --to-datetime \
1970-01-02T00:00:00.000 --execute
reset to a time with zone: share --reset-offsets --group idle --topic alpha:1 --to-datetime \
1970-01-03T00:00:00.000+0100 --execute
reset to a time in Z: share --reset-offsets --group idle --topic alpha:2 --to-datetime \
1970-01-04T00:00:00.000Z --execute
reset to the future: share --reset-offsets --group idle --topic beta --to-datetime \
2096-01-01T00:00:00.000 --execute
times were found: share --describe --group idle
reset two topics: share --reset-offsets --group idle --topic alpha --topic beta:0 --to-earliest \
--execute
two topics were reset: share --describe --group idle
reset an unknown topic: share --reset-offsets --group idle --topic gamma --to-earliest --execute
reset an unknown partition: share --reset-offsets --group idle --topic beta:7 --to-earliest \
--execute
reset a wrong partition: share --reset-offsets --group idle --topic beta:x --to-earliest --execute
reset to no time: share --reset-offsets --group idle --topic beta --to-datetime noon --execute
plan for a group that is not: share --reset-offsets --group made --topic beta --to-latest --dry-run
a plan makes no group: share --describe --group made
reset makes a group: share --reset-offsets --group made --topic beta --to-latest --execute
a group was made: share --describe --group made --verbose
the made group is empty: share --describe --group made --state
all topics of a group that is not: share --reset-offsets --group nobody --all-topics \
--to-latest --dry-run
delete offsets: share --delete-offsets --group idle --topic beta
offsets are gone: share --describe --group idle
delete offsets again: share --delete-offsets --group idle --topic beta --topic alpha
no offsets are left: share --describe --group idle
delete offsets of an unknown topic: share --delete-offsets --group idle --topic gamma
delete offsets of no group: share --delete-offsets --group nobody --topic alpha
groups have no configs: configs --describe --entity-type groups --entity-name made
set configs: configs --alter --entity-type groups --entity-name made --add-config \
share.auto.offset.reset=earliest,share.record.lock.duration.ms=20000
configs are set: configs --describe --entity-type groups --entity-name made
all configs: configs --describe --all --entity-type groups --entity-name made \
| ^  share[.](?!partition[.]wide|paused|ordering|fairness|priority|rate|rel|record[.](expiry|sched))
configs of all groups: configs --describe --entity-type groups
set a wrong value: configs --alter --entity-type groups --entity-name made --add-config \
share.auto.offset.reset=sometime
set a value out of bounds: configs --alter --entity-type groups --entity-name made --add-config \
share.record.lock.duration.ms=1
set an unknown config: configs --alter --entity-type groups --entity-name made --add-config \
share.unknown=1
delete a config: configs --alter --entity-type groups --entity-name made --delete-config \
share.auto.offset.reset
a config is gone: configs --describe --entity-type groups --entity-name made
delete groups: share --delete --group made --group nobody
delete all: share --delete --all-groups
nobody is left: share --list
delete all of none: share --delete --all-groups
describe all of none: share --describe --all-groups
"""


def steps(script: str) -> Iterator[Step]:
    """The steps of a script above."""
    for line in script.strip().splitlines():
        name, command = line.split(": ", 1)
        yield Step(name, *command.split(" | "))


NAMES = [step.name for script in (WORKING, RESTING) for step in steps(script)]


def run_script(shell: ToolShell, bootstrap: str) -> dict[str, str]:
    """Make the data, run all steps; what each of them printed, by its name."""
    make_records(bootstrap)
    work_and_leave(bootstrap)
    printed = {}
    with worker(bootstrap, BUSY, "alpha") as busy:
        work(busy)
        printed |= {step.name: run(shell, bootstrap, step) for step in steps(WORKING)}
    return printed | {step.name: run(shell, bootstrap, step) for step in steps(RESTING)}


def run(shell: ToolShell, bootstrap: str, step: Step) -> str:
    """What a step printed, masked."""
    tool, *words = step.command.split()
    ran = shell.run("kafka-share-groups" if tool == "share" else f"kafka-{tool}", bootstrap, *words)
    lines = masked(ran).splitlines()
    return "\n".join(line for line in lines if re.search(step.kept, line))


def masked(ran: Ran) -> str:
    """Status and both outputs, without stack traces and without what differs by nature.

    Epochs are among that: Apache Kafka assigns with a member's second heartbeat, we with its first.
    """
    told = [line for line in ran.stderr.splitlines() if not line.startswith("\tat ")]
    if ran.status and told:
        told = told[:1]  # then comes the tool's help
    text = "\n".join([f"status {ran.status}", *ran.stdout.splitlines(), *told])
    text = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", text)
    text = re.sub(r"[\w-]{22}(?= +/127\.0\.0\.1)", "MEMBER", text)
    text = re.sub(r"(?<=Empty|table)( +)\d+( +)\d+(?= +\d+$)", r"\1N\2N", text, flags=re.M)
    text = re.sub(r"(MEMBER +/127\.0\.0\.1 +\S+ +\d+ +)\d+(?= +alpha)", r"\1N", text)
    text = re.sub(r"Epoch: \d+", "Epoch: N", text)
    return "\n".join(line.rstrip() for line in text.splitlines())


# --- the data -------------------------------------------------------------------------------------


def make_records(bootstrap: str) -> None:
    with sync.Admin(bootstrap) as admin:
        for topic, partitions in TOPICS.items():
            admin.create_topics(topic, partitions=partitions)
        for group in (IDLE, BUSY):
            admin.alter_configs("group", group, {"share.auto.offset.reset": "earliest"})
    with sync.Producer(bootstrap) as producer:
        for topic, partitions in TOPICS.items():
            for partition in range(partitions):
                for day in range(RECORDS):
                    producer.enqueue(
                        topic, str(day), partition=partition, timestamp_ms=day * DAY_MS + 1
                    )


def worker(bootstrap: str, group: str, topic: str) -> sync.ShareConsumer:
    return sync.ShareConsumer(
        topic,
        group_id=group,
        bootstrap_servers=bootstrap,
        client_id="worker",
        acknowledgement_mode="explicit",
    )


def work_and_leave(bootstrap: str) -> None:
    """`idle` works once."""
    with worker(bootstrap, IDLE, "alpha") as consumer:
        work(consumer)
    left = TOPICS["alpha"]
    with sync.Admin(bootstrap) as admin:
        while sum(one.lag or 0 for one in admin.list_share_group_offsets(IDLE).values()) != left:
            continue  # asking takes a round trip: no busy loop


def work(consumer: sync.ShareConsumer) -> None:
    """Do all of alpha but the first record of each partition: where everything before a record is
    done, Apache Kafka's start offset trails by a write; where nothing is, it has none.
    """
    todo = {(p, offset) for p in range(TOPICS["alpha"]) for offset in range(1, RECORDS)}
    while todo:
        for record in consumer.poll(WAIT_MS):
            if record.offset == 0:
                consumer.release(record)
            else:
                consumer.accept(record)
                todo.discard((record.partition, record.offset))
        consumer.commit()
