"""Checks before a command begins whether a broker can be reached. If no broker is there, the check
takes five seconds; ten, if an address does not even refuse connections."""

from __future__ import annotations

import asyncio
import os
import re
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from sharegroup.cli.connecting import BrokerAddress
from sharegroup.cli.outcome import complain
from sharegroup.client.admin.admin import Admin
from sharegroup.client.errors import BootstrapError
from sharegroup.client.network.addresses import Address, parse_addresses

REACH_S: Final = 1.0
"""After so many seconds, a message says that an address is silent, or does not answer."""
STARTING_S: Final = 5.0
"""How long, in seconds, to wait for a broker that is starting, as after ``sharegroup serve &``."""
SILENT_S: Final = 10.0
"""How long, in seconds, to wait for an address that neither accepts nor refuses: it may be far
away, or its name may be looked up slowly. A lost packet is sent again after 1, 3 and 7 s.
"""
_SILENT: Final = f"no answer in {SILENT_S:.0f} s"
_PAUSE_S: Final = 0.05
API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 0, -1)
"""A request that every broker answers: ApiVersions 0, without a client id."""


@asynccontextmanager
async def admin_of(broker: BrokerAddress) -> AsyncIterator[Admin]:
    """An admin client of a broker that was reached.

    Raises:
        BootstrapError, ConfigError: as :func:`reach`.
        AuthenticationFailed: the broker does not let us in.
    """
    await reach(broker)
    async with Admin(broker.servers, **broker.arguments) as admin:
        yield admin


async def reach(broker: BrokerAddress) -> None:
    """Return when one of the addresses answers, or after REACH_S if one accepts a connection. With
    TLS, an address that accepts a connection counts as one that answers: if something is wrong
    after that, the client says so.

    Raises:
        BootstrapError: no address accepted a connection within STARTING_S, or, if one of them is
            silent, within SILENT_S; the message says why.
        ConfigError: the text is not ``host:port,…``.
    """
    addresses = parse_addresses(broker.servers)
    encrypted = broker.security.encrypted
    reasons: dict[Address, str | None] = dict.fromkeys(addresses, _SILENT)
    names = ", ".join(map(str, addresses))
    tries = [asyncio.ensure_future(_answered(address, reasons, encrypted)) for address in addresses]
    try:
        done, _ = await asyncio.wait(tries, timeout=REACH_S, return_when=asyncio.FIRST_COMPLETED)
        if not done and None not in reasons.values():
            patience_s = STARTING_S
            if _SILENT in reasons.values():
                patience_s = SILENT_S
                complain(f"{names}: no answer yet; waiting for up to {SILENT_S:.0f} s")
            done, _ = await asyncio.wait(
                tries, timeout=patience_s - REACH_S, return_when=asyncio.FIRST_COMPLETED
            )
    finally:
        for one in tries:
            one.cancel()
        await asyncio.wait(tries)
    found = [reason for reason in reasons.values() if reason is not None]
    if done:
        return
    if len(found) == len(addresses):
        why = "; ".join(dict.fromkeys(found))
        raise BootstrapError(f"no broker could be reached at {names} ({why})")
    complain(f"{names}: connected, but no answer yet; waiting")


async def _answered(address: Address, reasons: dict[Address, str | None], encrypted: bool) -> None:
    """Return when the address answers. Until then ``reasons`` has the reason why it does not, or
    None while the broker may be busy. A port forwarder without a broker accepts connections and
    closes them.
    """
    while True:
        try:
            reader, writer = await asyncio.open_connection(address.host, address.port)
        except OSError as error:
            reasons[address] = _why(error)
        else:
            reasons[address] = None
            try:
                if encrypted:
                    return
                writer.write(API_VERSIONS)
                if await reader.read(1):
                    return
                reasons[address] = (
                    "the connection was closed; if it is a TLS port, set security.protocol to SSL "
                    "or SASL_SSL in the file of --command-config"
                )
            except OSError as error:
                reasons[address] = _why(error)
            finally:
                writer.close()
        await asyncio.sleep(_PAUSE_S)


def _why(error: OSError) -> str:
    """The reason in an error. The messages of asyncio are not used: they repeat the address."""
    number = re.search(r"Errno (\d+)", str(error))
    return os.strerror(int(number[1])) if number else error.strerror or str(error)
