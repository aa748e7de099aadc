"""Tells whether a worker can run a handler, as far as that is seen before it is called: each
restart of a worker that finds out by calling it costs records a delivery."""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

from sharegroup.model.errors import ConfigError

NOT_AWAITED: Final = (
    "the handler of ShareConsumer.run must be a coroutine function (async def); sharegroup.sync "
    "runs plain functions, in threads"
)
NOT_PLAIN: Final = (
    "the handler of sharegroup.sync's run must be a plain function; sharegroup.ShareConsumer runs "
    "coroutine functions"
)
_NEEDS_MORE: Final = (
    inspect.CO_COROUTINE
    | inspect.CO_GENERATOR
    | inspect.CO_ASYNC_GENERATOR
    | inspect.CO_ITERABLE_COROUTINE
)
"""Calling such a function does not run its body."""


class PlainHandler(ConfigError):
    """The handler is of the wrong kind: a plain function for asyncio, or a coroutine function for
    threads.
    """


def is_coroutine_function(handler: Callable[[Any], Any]) -> bool:
    """Whether it is to be awaited: ``async def``, or an object whose ``__call__`` is that."""
    call = getattr(type(handler), "__call__", None)  # noqa: B004  # it may be a coroutine function
    return any(map(inspect.iscoroutinefunction, (handler, call)))


def check_awaited(handler: Callable[[Any], Any]) -> None:
    """Raises PlainHandler: what the handler returns can surely not be awaited. A plain function may
    return what can be, as a lambda around a coroutine function does."""
    if inspect.isasyncgenfunction(handler) or _returns_nothing(handler):
        raise PlainHandler(NOT_AWAITED)


def check_plain(handler: Callable[[Any], Any]) -> None:
    """Raises PlainHandler: a call of the handler does surely not do its work."""
    yields = inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler)
    if yields or is_coroutine_function(handler):
        raise PlainHandler(NOT_PLAIN)


def _returns_nothing(handler: object) -> bool:
    """Whether it is a function in Python that returns None wherever it returns."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)  # of a method
    if not inspect.isfunction(function) or function.__code__.co_flags & _NEEDS_MORE:
        return False
    steps = list(dis.get_instructions(function))
    returned = [
        (one, before)
        for before, one in zip([None, *steps], steps, strict=False)
        if one.opname.startswith("RETURN_") and one.opname != "RETURN_GENERATOR"
    ]
    return bool(returned) and all(_is_none(one, before) for one, before in returned)


def _is_none(step: dis.Instruction, before: dis.Instruction | None) -> bool:
    if step.opname == "RETURN_CONST":  # Python 3.12 and 3.13
        return step.argval is None
    constant = before is not None and before.opname == "LOAD_CONST" and before.argval is None
    return constant and not step.is_jump_target  # else another value may be there
