"""One question about several groups or transactional ids."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from sharegroup.model.errors import KafkaError

T = TypeVar("T")


async def of_each(
    names: Iterable[str], ask: Callable[[str], Awaitable[T]]
) -> dict[str, T | KafkaError]:
    """The result of ``ask`` for each name. The calls run concurrently: each name has its own
    coordinator, and a retry for one name does not repeat the others.
    """

    async def outcome(name: str) -> T | KafkaError:
        try:
            return await ask(name)
        except KafkaError as error:
            return error

    wanted = list(dict.fromkeys(names))
    return dict(zip(wanted, await asyncio.gather(*map(outcome, wanted)), strict=True))


def or_first_error(outcomes: dict[str, T | KafkaError]) -> dict[str, T]:
    """The results, or the first error among them."""
    found: dict[str, T] = {}
    for name, outcome in outcomes.items():
        if isinstance(outcome, KafkaError):
            raise outcome
        found[name] = outcome
    return found
