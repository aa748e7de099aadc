"""The coordinator runtime over a log that answers late, as one in another cluster does: offsets are
known when the records are durable, not before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sharegroup.broker.coordination.log import (
    EndOfTransaction,
    KeyValue,
    LoggedEnd,
    LoggedRecord,
    ProducerEpoch,
)
from sharegroup.broker.coordination.runtime import Growth, Runtime
from sharegroup.model.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    KafkaStorageError,
    MalformedMessage,
)
from sharegroup.sim import SimulatedLoop
from sharegroup.sim.environment import SimulatedClock
from tests.broker.tally_machine import KEY_TYPE, TallyMachine

NEVER = 1_000_000


class LateTicket:
    """What arrives later."""

    def __init__(
        self,
        records: Sequence[KeyValue],
        producer: ProducerEpoch | None = None,
        end: EndOfTransaction | None = None,
    ) -> None:
        self.records = records
        self.producer = producer
        self.end = end
        self.offset: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def durable(self) -> int:
        return await asyncio.shield(self.offset)


class LateLog:
    """A log whose records arrive when the test says so, each behind one of somebody else."""

    name = "late-0"
    exists = True

    def __init__(self) -> None:
        self.records: list[LoggedRecord | LoggedEnd] = []
        self.epochs: dict[int, int] = {}
        self.start_offset = self.durable_end = 0
        self.left_out: list[int] = []
        self.refuses = self.unreadable = self.at_once = self.broken = False
        self.on_their_way: list[LateTicket] = []

    @property
    def record_count(self) -> int:
        return self.durable_end - self.start_offset

    async def is_made(self) -> bool:
        return self.exists

    async def ensure(self) -> None:
        """It is there."""

    def submit(
        self,
        records: Sequence[KeyValue],
        producer: ProducerEpoch | None = None,
        *,
        flush: bool = True,
    ) -> LateTicket:
        return self._submit(LateTicket(records, producer))

    def submit_end(self, end: EndOfTransaction) -> LateTicket:
        return self._submit(LateTicket((), end.producer, end))

    def check_producer(self, producer: ProducerEpoch) -> None:
        if self.epochs.get(producer.producer_id, -1) > producer.epoch:
            raise InvalidProducerEpoch

    def _submit(self, ticket: LateTicket) -> LateTicket:
        if self.refuses:
            raise KafkaStorageError("refused")
        if ticket.producer is not None:
            self.epochs[ticket.producer.producer_id] = ticket.producer.epoch
        self.on_their_way.append(ticket)
        if self.broken:
            self.fail()
        elif self.at_once:
            self.arrive()
        return ticket

    def arrive(self) -> None:
        """All that is on its way becomes durable."""
        for ticket in self.on_their_way:
            self.durable_end += 1  # a record of somebody else
            ticket.offset.set_result(self.durable_end)
            for key, value in ticket.records:
                self.records.append(LoggedRecord(self.durable_end, key, value, ticket.producer))
                self.durable_end += 1
            if ticket.end is not None:
                self.records.append(LoggedEnd(self.durable_end, ticket.end))
                self.durable_end += 1
        self.on_their_way.clear()

    def fail(self) -> None:
        """All that is on its way is lost, and what follows, until the next replay."""
        self.broken = True
        for ticket in self.on_their_way:
            ticket.offset.set_exception(KafkaStorageError("lost"))
        self.on_their_way.clear()

    async def replay(self) -> AsyncIterator[LoggedRecord | LoggedEnd]:
        if self.unreadable:
            raise KafkaStorageError("unreadable")
        self.broken = False
        for record in list(self.records):
            await asyncio.sleep(0.001)
            yield record

    async def delete_before(self, offset: int) -> int:
        assert offset <= self.durable_end
        self.start_offset = offset
        self.records = [record for record in self.records if record.offset >= offset]
        return offset

    def leave_out(self, offset: int, error: MalformedMessage) -> None:
        self.left_out.append(offset)


def runtime_over(log: LateLog, records: int = NEVER) -> Runtime:
    return Runtime(log, [TallyMachine], SimulatedClock(), Growth(lambda: records, 2))


async def loaded(log: LateLog) -> dict[str, int | None]:
    """What a start finds."""
    again = runtime_over(log)
    await again.load()
    return again.machine(TallyMachine).numbers()


@asynccontextmanager
async def started(log: LateLog) -> AsyncIterator[Runtime]:
    """A runtime that works in the background, too; at the end it is closed."""
    runtime = runtime_over(log)
    async with asyncio.TaskGroup() as tasks:

        def spawn(coroutine: Coroutine[Any, Any, None]) -> None:
            tasks.create_task(coroutine)

        runtime.start(spawn)
        yield runtime
    runtime.close()


async def add(runtime: Runtime, name: str, ends_ms: int = 0) -> int:
    return await runtime.commit(TallyMachine, lambda tally: tally.add(name, ends_ms))


async def look(runtime: Runtime, name: str) -> int | None:
    return await runtime.commit(TallyMachine, lambda tally: tally.look(name))


def simulate(scenario: Callable[[LateLog], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario(LateLog())

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(whole())


async def turns() -> None:
    """Let everybody come to where they wait."""
    await asyncio.sleep(1)


def test_an_answer_waits_until_its_records_are_durable_and_their_offsets_known() -> None:
    async def scenario(log: LateLog) -> None:
        runtime = runtime_over(log)
        first, second = (asyncio.ensure_future(add(runtime, name)) for name in ("a", "b"))
        await turns()
        assert not first.done()
        assert runtime.machine(TallyMachine).offsets == {}
        log.arrive()
        assert (await first, await second) == (1, 1)
        assert runtime.machine(TallyMachine).offsets == {"a": 1, "b": 3}

    simulate(scenario)


def test_a_decision_without_records_waits_for_earlier_writes() -> None:
    async def scenario(log: LateLog) -> None:
        runtime = runtime_over(log)
        writing = asyncio.ensure_future(add(runtime, "a"))
        looking = asyncio.ensure_future(look(runtime, "a"))
        await turns()
        assert not looking.done(), "it has seen what may be lost"
        log.arrive()
        assert (await writing, await looking) == (1, 1)

    simulate(scenario)


def test_lost_changes_are_undone_and_answers_based_on_them_fail() -> None:
    async def scenario(log: LateLog) -> None:
        log.at_once = True
        runtime = runtime_over(log)
        await add(runtime, "a")
        log.at_once = False
        unsure = [asyncio.ensure_future(one) for one in (add(runtime, "a"), look(runtime, "a"))]
        await turns()
        log.fail()
        unsure.append(asyncio.ensure_future(add(runtime, "a")))  # nobody has heard of it yet
        for _ in range(10):
            await asyncio.sleep(0)
        assert not runtime.loaded
        with pytest.raises(CoordinatorLoadInProgress):
            runtime.begin(TallyMachine, lambda tally: tally.add("a"))
        with pytest.raises(CoordinatorLoadInProgress):
            await runtime.load_or_refuse()
        waiting = asyncio.ensure_future(add(runtime, "a"))
        for one in unsure:
            with pytest.raises(KafkaStorageError):
                await one
        await turns()
        log.arrive()
        assert await waiting == 2, "decided on what the log says"

    simulate(scenario)


def test_nothing_is_decided_while_the_log_cannot_be_read() -> None:
    async def scenario(log: LateLog) -> None:
        log.at_once = True
        runtime = runtime_over(log)
        await add(runtime, "a")
        log.refuses = log.unreadable = True
        with pytest.raises(KafkaStorageError):
            await add(runtime, "a")
        assert not runtime.loaded
        with pytest.raises(CoordinatorNotAvailable):
            await runtime.load_or_refuse()
        log.refuses = log.unreadable = False
        await runtime.load_or_refuse()
        assert await add(runtime, "a") == 2

    simulate(scenario)


def test_a_refused_decision_changes_nothing() -> None:
    async def scenario(log: LateLog) -> None:
        def refuse(tally: TallyMachine) -> tuple[None, list[Any]]:
            raise ValueError("no")

        log.at_once = True
        runtime = runtime_over(log)
        with pytest.raises(ValueError, match="no"):
            await runtime.commit(TallyMachine, refuse)
        assert runtime.loaded
        assert log.records == []

    simulate(scenario)


def test_rewriting_keeps_new_records_and_deletes_the_old_log() -> None:
    async def scenario(log: LateLog) -> None:
        log.at_once = True
        runtime = runtime_over(log)
        for number in range(100):
            await add(runtime, f"n{number % 40}")
        end, log.at_once = log.durable_end, False
        rewriting = asyncio.ensure_future(runtime.rewrite())
        await turns()
        meanwhile = asyncio.ensure_future(add(runtime, "n0"))
        assert log.start_offset == 0, "nothing goes before all is durable"
        while not rewriting.done():
            log.arrive()
            await turns()
        await rewriting
        assert await meanwhile == 4
        assert runtime.deleted_before == log.start_offset > end
        numbers = runtime.machine(TallyMachine).numbers()
        assert len(numbers) == 40
        assert await loaded(log) == numbers

    simulate(scenario)


def test_a_failed_rewrite_leaves_the_old_records() -> None:
    async def scenario(log: LateLog) -> None:
        log.at_once = True
        runtime = runtime_over(log)
        for number in range(100):
            await add(runtime, f"n{number % 40}")
        before, log.at_once = await loaded(log), False
        rewriting = asyncio.ensure_future(runtime.rewrite())
        await turns()
        log.arrive()  # the first keys, not the others
        await turns()
        log.fail()
        with pytest.raises(KafkaStorageError):
            await rewriting
        assert log.start_offset == 0
        assert await loaded(log) == before

    simulate(scenario)


def test_a_log_is_rewritten_when_it_is_long_for_what_is_live() -> None:
    async def scenario(log: LateLog) -> None:
        log.at_once = True
        runtime = runtime_over(log, records=50)
        work: list[asyncio.Task[None]] = []

        def spawn(coroutine: Coroutine[Any, Any, None]) -> None:
            work.append(asyncio.ensure_future(coroutine))

        for _ in range(60):
            await add(runtime, "a")
        assert work == [], "not before the start"
        runtime.start(spawn)
        for _ in range(500):
            await add(runtime, "a")
            await turns()
        await asyncio.gather(*work)
        assert 5 < len(work) < 50
        assert log.record_count < 60
        runtime.close()
        for _ in range(100):
            await add(runtime, "a")
        assert log.record_count > 100, "nothing begins after the end"
        assert await loaded(log) == {"a": 660}

    simulate(scenario)


def test_pruning_stops_at_the_lowest_offset_of_all_machines() -> None:
    async def scenario(log: LateLog) -> None:
        log.at_once = True
        runtime = runtime_over(log)
        for name in ("a", "b", "a", "a"):
            await add(runtime, name)
        assert await runtime.prune() == runtime.machine(TallyMachine).offsets["b"]
        assert await runtime.prune() is None
        await add(runtime, "b")
        assert await runtime.prune() == runtime.machine(TallyMachine).offsets["a"]
        assert await loaded(log) == {"a": 3, "b": 2}

    simulate(scenario)


def test_the_next_deadline_is_kept_also_after_a_loading() -> None:
    async def scenario(log: LateLog) -> None:
        log.at_once = True
        async with started(log) as runtime:
            await add(runtime, "late", 20_000)
            await add(runtime, "early", 10_000)
            await asyncio.sleep(10.5)
            assert await loaded(log) == {"late": 1}
            log.refuses = True
            with pytest.raises(KafkaStorageError):
                await add(runtime, "lost", 12_000)
            log.refuses = False
            await asyncio.sleep(5)
            assert runtime.machine(TallyMachine).numbers() == {"late": 1}
            await asyncio.sleep(5)
            assert await loaded(log) == {}

    simulate(scenario)


@pytest.mark.parametrize("broken", ["refuses", "broken", "unreadable"])
def test_a_deadline_that_could_not_be_written_is_kept_when_the_disk_is_well(broken: str) -> None:
    """Nobody asks the runtime for anything meanwhile."""

    async def scenario(log: LateLog) -> None:
        log.at_once = True
        async with started(log) as runtime:
            await add(runtime, "it", 10_000)
            log.refuses = broken != "broken"
            log.broken = broken == "broken"
            log.unreadable = broken == "unreadable"
            await asyncio.sleep(15)
            log.refuses = log.unreadable = False
            await asyncio.sleep(1)
            assert await loaded(log) == {}

    simulate(scenario)


def test_an_unreadable_record_is_skipped() -> None:
    async def scenario(log: LateLog) -> None:
        log.at_once = True
        for value in (b"1 0", b"x 0"):
            log.submit([(KEY_TYPE + value[:1], value), (b"\0\1other", b"not ours")])
        assert await loaded(log) == {"1": 1}
        runtime = runtime_over(log)
        await runtime.load()
        assert log.left_out == [4, 4]

    simulate(scenario)
