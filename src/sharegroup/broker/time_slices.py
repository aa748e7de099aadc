"""Long work in slices: a request that names a hundred thousand things must not stop the others.

One thread serves everybody. A handler that goes through the parts of a request with :func:`sliced`
gives way to other connections every few milliseconds of work. So use it only for parts that are
answered each on its own: whatever happens between two parts may change the second one's answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

from sharegroup.model.limits import SLICE_S

Item = TypeVar("Item")


async def sliced(items: Iterable[Item]) -> AsyncIterator[Item]:
    """Each item; after SLICE_S of work other requests have their turn."""
    now = asyncio.get_running_loop().time
    until = now() + SLICE_S
    for item in items:
        if now() >= until:
            await asyncio.sleep(0)
            until = now() + SLICE_S
        yield item
