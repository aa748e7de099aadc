"""Signals of a broker: SIGTERM and SIGINT stop it, SIGHUP makes it read its ACLs, certificates and
users again."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

from sharegroup.broker.server import Broker
from sharegroup.model.errors import ConfigError, InvalidConfig

logger = logging.getLogger("sharegroup.broker")

STDIN = 0
T = TypeVar("T")


def ignore_hang_ups_at_start() -> None:
    """Ignore SIGHUP during start: it must not end a daemon while its data folder is read."""
    if not os.isatty(STDIN):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


async def unless_stopped(work: Coroutine[Any, Any, T]) -> T | None:
    """The result of ``work``; None: SIGTERM or SIGINT came first, and the work is cancelled."""
    task = asyncio.create_task(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        return None


def stop_event(broker: Broker) -> asyncio.Event:
    """Handle signals from now on; returns the event that is set when the broker must stop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    on_terminal = os.isatty(STDIN)
    loop.add_signal_handler(signal.SIGHUP, partial(_hang_up, broker, stop, on_terminal))
    return stop


def _hang_up(broker: Broker, stop: asyncio.Event, on_terminal: bool) -> None:
    """SIGHUP: read files again. If the terminal that started the broker is gone, stop instead,
    because Ctrl-C can no longer stop it."""
    if on_terminal and not os.isatty(STDIN):
        logger.info("the terminal is gone")
        stop.set()
        return
    told = True
    try:
        count = broker.security.read_again()
        told = count > 0
        if told:
            logger.info("SIGHUP: certificates, keys and users of %d listeners are in force", count)
    except InvalidConfig as error:
        logger.error("SIGHUP: certificates, keys and users were not reloaded: %s", error.message)
    try:
        acls = broker.read_acls()
    except ConfigError as error:
        logger.error("SIGHUP: the ACLs were not reloaded: %s", error)
        return
    if acls is None:
        if not told:
            logger.info("SIGHUP: nothing to reload, authorizer.acl.file is not set")
    else:
        logger.info("SIGHUP: %d ACLs are in force", acls)
