"""Which handlers a worker refuses before it joins: only those that it surely cannot run."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from sharegroup import sync
from sharegroup.client import ShareConsumer
from sharegroup.client.worker.handler_kinds import PlainHandler, check_awaited, check_plain
from sharegroup.testing import broker
from tests.client.worker_jobs import jobs
from tests.client.working import poll_until, run

DONE: list[object] = []


async def later(job: object) -> None: ...


def named(kind: str, job: object) -> None:
    DONE.append((kind, job))


def early(job: object) -> None:
    if job is None:
        return
    DONE.append(job)


def yielding(job: object) -> Iterator[object]:
    yield job


async def yielding_later(job: object) -> AsyncIterator[object]:
    yield job


def decorated(job: object) -> Any:
    return later(job)


def perhaps(job: object) -> Any:
    return (job and later(job)) or None


def failing(job: object) -> Any:
    raise ValueError


class Handlers:
    async def __call__(self, job: object) -> None: ...

    def plain(self, job: object) -> None:
        DONE.append(job)

    async def later(self, job: object) -> None: ...

    def delegates(self, job: object) -> Awaitable[None]:
        return self.later(job)


@pytest.mark.parametrize(
    "handler",
    [
        early,
        functools.partial(named, "resize"),
        functools.partial(functools.partial(named), "resize"),
        Handlers().plain,
        lambda job: None,
        yielding_later,
    ],
)
def test_what_can_surely_not_be_awaited(handler: Callable[[Any], Any]) -> None:
    with pytest.raises(PlainHandler, match="must be a coroutine function"):
        check_awaited(handler)


@pytest.mark.parametrize(
    "handler",
    [
        later,
        decorated,
        perhaps,
        failing,
        Handlers(),
        Handlers().later,
        Handlers().delegates,
        functools.partial(later),
        functools.partial(Handlers().delegates),
        lambda job: later(job),
        asyncio.sleep,
        print,
    ],
)
def test_what_may_be_awaited(handler: Callable[[Any], Any]) -> None:
    check_awaited(handler)


@pytest.mark.parametrize(
    "handler",
    [later, yielding, yielding_later, Handlers(), Handlers().later, functools.partial(later)],
)
def test_what_a_thread_surely_does_not_run(handler: Callable[[Any], Any]) -> None:
    with pytest.raises(PlainHandler, match="must be a plain function"):
        check_plain(handler)


@pytest.mark.parametrize("handler", [early, decorated, failing, Handlers().plain, Handlers, print])
def test_what_a_thread_may_run(handler: Callable[[Any], Any]) -> None:
    check_plain(handler)


def test_a_refused_handler_costs_no_delivery() -> None:
    """Each restart took a delivery of the first records: after five of them they were archived."""
    not_awaited: Any = early

    async def refused(consumer: ShareConsumer) -> None:
        with pytest.raises(PlainHandler):
            await consumer.run(not_awaited)
        records = await poll_until(consumer, 1)
        assert [one.delivery_count for one in records] == [1]
        await consumer.close()

    with broker() as kafka:
        topic, group = jobs(kafka, 1)
        settings: dict[str, Any] = {"group_id": group, "bootstrap_servers": kafka.bootstrap}
        blocking: Any = sync.ShareConsumer(topic, **settings)
        with blocking, pytest.raises(PlainHandler):
            blocking.run(later)
        run(lambda: refused(ShareConsumer(topic, **settings)))


def test_a_worker_that_is_stopped_raises_what_ended_it() -> None:
    """`sharegroup work --until-idle` said status 0 although no handler had run."""

    async def scenario() -> None:
        consumer = ShareConsumer(topic, group_id=group, bootstrap_servers=kafka.bootstrap)

        def stops(job: object) -> Any:
            consumer.stop()
            return job

        with pytest.raises(PlainHandler):
            await consumer.run(stops)

    with broker() as kafka:
        topic, group = jobs(kafka, 1)
        run(scenario)
