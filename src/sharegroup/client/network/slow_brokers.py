"""What a client does while a broker does not answer: it asks others, and whether the broker is
still one of the cluster.

A broker whose process stands still, or whose machine is lost, keeps its connections. Without this a
client would wait for such a broker until its requests time out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Final, Self

from sharegroup.client.network.node_link import NodeLink
from sharegroup.model import errors

PATIENCE_S: Final = 2.0
"""How long a broker may take for an answer before others are asked."""


class Overdue:
    """While it is entered, calls ``doubt`` after ``patience_s``, and again and again after that."""

    def __init__(self, patience_s: float, doubt: Callable[[], None]) -> None:
        self._patience_s = patience_s
        self._doubt = doubt

    def __enter__(self) -> Self:
        self._timer = asyncio.get_running_loop().call_later(self._patience_s, self._passed)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()

    def _passed(self) -> None:
        self._doubt()
        self.__enter__()


async def answer_of_any(
    links: Iterable[NodeLink],
    attempt: Callable[[NodeLink], Awaitable[Any]],
    nodes: Iterable[object],
    patience_s: float | None,
) -> Any:
    """The result of the first link that succeeds.

    Args:
        links: in the order in which they are tried.
        nodes: the addresses of the cluster's brokers.
        patience_s: the next one is tried as well if none has answered for so long; None: only when
            the one before has failed.

    Raises:
        AuthenticationFailed: a node does not let us in. A refusal by an address that is no node's
            is raised only if no link failed in another way: otherwise the cluster may be back
            later.
    """
    refused: errors.KafkaError | None = None
    unsure: errors.KafkaError | None = None
    untried = iter(links)
    asked: dict[asyncio.Future[Any], NodeLink] = {}
    try:
        while True:
            link = next(untried, None)
            if link is not None:
                asked[asyncio.ensure_future(attempt(link))] = link
            elif not asked:
                raise refused or unsure or errors.NetworkException("no broker is known")
            patience = patience_s if link is not None else None
            await asyncio.wait(asked, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for one in [one for one in asked if one.done()]:
                link = asked.pop(one)
                try:
                    return one.result()
                except errors.AuthenticationFailed as error:
                    refused = error if link.address in nodes else refused
                    unsure = unsure or error
                except errors.RetriableError as error:
                    unsure = error
    finally:
        for one in asked:
            one.cancel()
