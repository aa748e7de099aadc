"""Reaches any bootstrap server of a cluster, within a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from sharegroup.client.closing import closed_meanwhile
from sharegroup.client.core.retry import Pauses
from sharegroup.client.errors import BootstrapError
from sharegroup.client.network.node_link import NodeLink
from sharegroup.model import errors


async def reach_any(
    links: Sequence[NodeLink],
    ask: Callable[[NodeLink], Awaitable[None]],
    within_s: float,
    pauses: Pauses,
    is_closed: Callable[[], bool],
) -> None:
    """Ask the bootstrap servers in turn until one answers. Each gets its share of the time.

    Raises:
        BootstrapError: no server answered within ``within_s``; the text names them all.
        AuthenticationFailed: no server let us in, because of the settings.
        IllegalState: the client was closed meanwhile.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()
    deadline = started + within_s
    reasons: dict[NodeLink, str] = {}
    refusal: errors.AuthenticationFailed | None = None
    while True:
        for link in links:
            left = max(0.0, deadline - loop.time())
            try:
                async with asyncio.timeout(min(left, within_s / len(links))):
                    await ask(link)
                return
            except errors.AuthenticationFailed as error:
                refusal = error
            except (errors.KafkaError, TimeoutError) as error:
                if is_closed():  # the connection was lost because the close cut it
                    raise closed_meanwhile() from None
                reasons[link] = str(error) or reasons.get(link, "no answer")
        if refusal is not None:
            raise refusal
        if loop.time() >= deadline:
            break
        if any(link.connected for link in links):  # to one that is of no cluster yet
            await asyncio.sleep(min(pauses.next_ms() / 1000, deadline - loop.time()))
            if is_closed():
                raise closed_meanwhile()
    names = ", ".join(str(link.address) for link in links)
    why = "; ".join(dict.fromkeys(reasons.values()))
    raise BootstrapError(
        f"no broker could be reached at {names} in {loop.time() - started:.0f} s ({why})"
    )
