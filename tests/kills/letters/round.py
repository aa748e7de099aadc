"""One round: a broker and four members, kills of the broker, the end, and the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final

from confluent_kafka import KafkaException, Message, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from sharegroup.model.errors import SharegroupError
from sharegroup.model.ids import TopicPartition
from sharegroup.sync import Admin as OurAdmin
from tests.kills.journal import Tail, all_lines
from tests.kills.letters.jobs import (
    GROUP,
    GROUP_SETTINGS,
    LETTERS,
    NO_REASON,
    PARTITIONS,
    TAKES_LETTERS,
    TOPIC,
    value_of,
)
from tests.kills.letters.rules import Letter, Verdict, judge, numbers_of
from tests.kills.ordering.states import read_all
from tests.kills.round import Stuck, Worker, start_ended, strike_all
from tests.kills.working import pause
from tests.servers.admin import ADMIN_SECONDS, SILENT, Admin
from tests.servers.running import RunningServer

MEMBERS: Final = ("ours-0", "ours-1", "confluent-0", "confluent-1")
FAULT_AT: Final = 1 / 3
"""The dead-letter topic refuses letters after this part of the kills."""
PRODUCER: Final = {"enable.idempotence": True, "batch.num.messages": 25}
"""A fetch brings whole batches: small ones, for many answers."""
DELAY_S_MAX: Final = 0.2
POLL_S: Final = 0.01
SIGN_S: Final = 20
"""So long without an answer, and the broker is killed anyway."""
END_S: Final = 600
SILENCE_S: Final = 8
"""No letter has come for so long: a broker tries again within 5 s."""
_PREFIX: Final = "__dlq.errors."


class LettersRound:
    """See the module. ``told`` is called with each kill; the broker is not started yet.

    Args:
        records: how many there are. Before each kill the next ones come, and some are answered.
        fault_s: for how long the dead-letter topic refuses letters; 0: never.
    """

    def __init__(
        self,
        server: RunningServer,
        folder: Path,
        *,
        records: int,
        kills: int,
        fault_s: float,
        seed: int = 1,
        told: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._server = server
        self._folder = folder
        self._records = records
        self._kills = kills
        self._fault_s = fault_s
        self._random = Random(f"letters {seed}")
        self._told = told
        self._tail = Tail(folder)
        self._workers = [
            Worker(folder, server.bootstrap, who, "letters.member", who.partition("-")[0])
            for who in MEMBERS
        ]
        self._takes_again_at: float | None = None
        self._produced = 0
        self._producer = Producer({"bootstrap.servers": server.bootstrap, **PRODUCER, **SILENT})

    def run(self, *, keeps_reasons: bool) -> Verdict:
        """Play and judge; raises Stuck, ServerFailed."""
        with self._running():
            for kill in range(self._kills):
                if kill == int(self._kills * FAULT_AT) and self._fault_s:
                    self._take_letters(False)
                    self._takes_again_at = time.monotonic() + self._fault_s
                self._produce(self._records * (kill + 1) // self._kills)
                self._wait_for_answers(self._random.randint(1, self._records // self._kills))
                pause(self._random.uniform(0, DELAY_S_MAX))  # a random time of the seed
                self._server.kill()
                self._server.start()
                self._told(kill + 1)
            self._finish()
            return self._judged(keeps_reasons)

    @contextmanager
    def _running(self) -> Iterator[None]:
        self._server.start()
        try:
            admin = Admin(self._server.bootstrap)
            admin.create_topic(TOPIC, PARTITIONS)
            admin.create_topic(LETTERS, PARTITIONS, **{TAKES_LETTERS: "true"})
            admin.set_group(GROUP, **GROUP_SETTINGS)
            for worker in self._workers:
                worker.start()
            yield
        finally:
            strike_all(self._workers)
            self._server.kill()

    def _produce(self, up_to: int) -> None:
        """Produce the next records, and wait until all are acknowledged."""
        for number in range(self._produced, up_to):
            self._producer.produce(TOPIC, value_of(number), partition=number % PARTITIONS)
        if self._producer.flush(END_S):
            raise Stuck("records are not acknowledged")
        self._produced = up_to

    def _wait_for_answers(self, count: int) -> None:
        """Until so many records more were answered, whatever the answers are."""
        asked: dict[str, int] = {}
        deadline = time.monotonic() + SIGN_S
        while count > 0 and time.monotonic() < deadline:
            for line in self._tail.lines():
                if line.what == "answering":
                    asked[line.who] = len(line.more["records"])
                elif line.what == "answered":
                    count -= asked.get(line.who, 1)
            self._tidy()
            pause(POLL_S)

    def _tidy(self) -> None:
        """Members that gave up begin again, and the dead-letter topic takes letters again."""
        if self._takes_again_at is not None and time.monotonic() > self._takes_again_at:
            self._take_letters(True)
            self._takes_again_at = None
        start_ended(self._workers)

    def _take_letters(self, yes: bool) -> None:
        """Switch the dead-letter topic."""
        entry = ConfigEntry(
            TAKES_LETTERS,
            "true" if yes else "false",
            incremental_operation=AlterConfigOpType.SET,
        )
        resource = ConfigResource(ResourceType.TOPIC, LETTERS, incremental_configs=[entry])
        client = Admin(self._server.bootstrap).client
        deadline = time.monotonic() + END_S
        while True:
            try:
                for done in client.incremental_alter_configs([resource]).values():
                    done.result(ADMIN_SECONDS)
            except KafkaException:  # a broker that has just begun
                if time.monotonic() > deadline:
                    raise
                pause(POLL_S)
            else:
                return

    def _finish(self) -> None:
        """Let the members finish everything, and the broker write its letters. Only our broker
        tells how many are still to be written: with another one, no letter must have come for a
        while."""
        deadline = time.monotonic() + END_S
        written, written_at = 0, time.monotonic()
        while (left := self._left()) != (0, 0):
            now = time.monotonic()
            letters = self._letters()
            if letters > written or left != (0, None) or self._takes_again_at is not None:
                written, written_at = letters, now
            elif now > written_at + SILENCE_S:
                return
            if now > deadline:
                raise Stuck(f"records that are not finished, and letters to be written: {left}")
            self._tidy()
            pause(0.1)  # of the condition above

    def _left(self) -> tuple[int | None, int | None]:
        """How many records are not finished, and how many letters are not written; None: the broker
        does not tell, or not yet."""
        with OurAdmin(self._server.bootstrap) as admin:
            try:
                found = admin.summarize_share_groups([GROUP])[GROUP]
            except SharegroupError:
                return None, None
        if isinstance(found, SharegroupError) or len(found.offsets) < PARTITIONS:
            return None, None
        lags = [one.lag for one in found.offsets.values()]
        dead = [one.dead for one in found.offsets.values()]
        return _sum(lags), _sum(dead)

    def _letters(self) -> int:
        """How many letters there are; 0: the broker does not know yet."""
        wanted = [TopicPartition(LETTERS, number) for number in range(PARTITIONS)]
        with OurAdmin(self._server.bootstrap) as admin:
            try:
                return sum(one.offset for one in admin.list_offsets(wanted).values())
            except SharegroupError:
                return 0

    def _judged(self, keeps_reasons: bool) -> Verdict:
        bootstrap = self._server.bootstrap
        numbers = numbers_of(
            (m.partition(), m.offset(), m.value()) for m in read_all(bootstrap, TOPIC, PARTITIONS)
        )
        letters = [letter_in(one) for one in read_all(bootstrap, LETTERS, PARTITIONS)]
        return judge(all_lines(self._folder), numbers, letters, keeps_reasons=keeps_reasons)


def _sum(numbers: Iterable[int | None]) -> int | None:
    """None: one of them is not known."""
    every = list(numbers)
    known = [one for one in every if one is not None]
    return sum(known) if len(known) == len(every) else None


def letter_in(record: Message) -> Letter:
    """What a letter says. Raises KeyError: it does not say its origin."""
    headers: Iterable[tuple[str, bytes | None]] = record.headers() or ()
    said = {name.removeprefix(_PREFIX): (data or b"").decode() for name, data in headers}
    return Letter(
        said["topic"],
        said["group"],
        (int(said["partition"]), int(said["offset"])),
        None if said.get("message") == NO_REASON else said.get("message"),
        record.value(),
    )
