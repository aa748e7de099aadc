"""``sharegroup quotas``: list, set, remove."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from sharegroup.cli.broker_check import admin_of
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    AsJson,
    BootstrapServer,
    CommandConfig,
    verbs,
)
from sharegroup.cli.outcome import UsageError, run
from sharegroup.cli.tables import print_json, print_line, print_rows
from sharegroup.client.admin.descriptions import ClientQuota
from sharegroup.quotas.entity import CLIENT_ID, IP, USER

quotas = verbs("Show, set and remove quotas of clients.")

EXAMPLES: Final = """\
Examples:

\b
sharegroup quotas set producer_byte_rate=1048576 --user alice
sharegroup quotas set request_percentage=50 --user-default --client-id reports
sharegroup quotas set connection_creation_rate=20 --ip-default
sharegroup quotas list
sharegroup quotas remove producer_byte_rate --user alice

Quotas of users and client ids: producer_byte_rate and consumer_byte_rate (bytes per second),
request_percentage (of the broker's time). Of an address: connection_creation_rate (per second).
"""

User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="A user.")]
AnyUser = Annotated[
    bool, typer.Option("--user-default", help="Each user that has no quota of its own.")
]
ClientId = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="A client id.")]
AnyClientId = Annotated[
    bool, typer.Option("--client-id-default", help="Each client id that has no quota of its own.")
]
Ip = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="An address.")]
AnyIp = Annotated[
    bool, typer.Option("--ip-default", help="Each address that has no quota of its own.")
]


def add_to(application: typer.Typer) -> None:
    """Add the commands."""
    application.add_typer(quotas, name="quotas")


@quotas.command("list", epilog=EXAMPLES)
def list_quotas(
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """List all quotas."""

    async def command() -> None:
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            found = await admin.describe_client_quotas()
        if as_json:
            print_json([{"entity": dict(one.entity), "quotas": dict(one.quotas)} for one in found])
            return
        rows = [row for one in found for row in _rows(one)]
        rows.sort(key=lambda row: tuple(map(str, row.values())))
        print_rows(rows, ("user", "client_id", "ip", "quota", "value"))

    run(command())


@quotas.command("set", epilog=EXAMPLES)
def set_quotas(
    wanted: Annotated[list[str], typer.Argument(metavar="QUOTA=NUMBER…", help="Quotas to set.")],
    user: User = None,
    user_default: AnyUser = False,
    client_id: ClientId = None,
    client_id_default: AnyClientId = False,
    ip: Ip = None,
    ip_default: AnyIp = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Set quotas of a user, a client id, both, or an address."""

    async def command() -> None:
        entity = parse_entity(
            (user, user_default), (client_id, client_id_default), (ip, ip_default)
        )
        changes = parse_quotas(wanted)
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            await admin.alter_client_quotas(entity, changes)
        print_line(f"{_told(entity)}: {', '.join(wanted)}")

    run(command())


@quotas.command("remove", epilog=EXAMPLES)
def remove_quotas(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="QUOTA…", help="By default, all that are set.")
    ] = None,
    user: User = None,
    user_default: AnyUser = False,
    client_id: ClientId = None,
    client_id_default: AnyClientId = False,
    ip: Ip = None,
    ip_default: AnyIp = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Remove quotas of a user, a client id, both, or an address."""

    async def command() -> None:
        entity = parse_entity(
            (user, user_default), (client_id, client_id_default), (ip, ip_default)
        )
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            there = await admin.describe_client_quotas(entity)
            held = [key for one in there for key in one.quotas]
            missing = [name for name in names or () if name not in held]
            if missing or not held:
                raise UsageError(f"{_told(entity)} has no {', '.join(missing) or 'quota'}")
            removed = names or held
            await admin.alter_client_quotas(entity, dict.fromkeys(removed))
        print_line(f"{_told(entity)}: {', '.join(removed)} removed")

    run(command())


def parse_entity(
    user: tuple[str | None, bool], client_id: tuple[str | None, bool], ip: tuple[str | None, bool]
) -> dict[str, str | None]:
    """The entity that the options name.

    Raises:
        UsageError: the options name no entity, or contradict each other.
    """
    entity: dict[str, str | None] = {}
    for kind, (name, default) in ((USER, user), (CLIENT_ID, client_id), (IP, ip)):
        if name is not None and default:
            raise UsageError(f"give --{kind} or --{kind}-default, not both")
        if name is not None or default:
            entity[kind] = name
    if not entity:
        raise UsageError("say whose quota: --user, --client-id, --ip, or one of their -default")
    if IP in entity and len(entity) > 1:
        raise UsageError("a quota is for an address, or for users and client ids: not for both")
    return entity


def parse_quotas(texts: list[str]) -> dict[str, float | None]:
    """The quotas of ``["producer_byte_rate=1024", …]``.

    Raises:
        UsageError: a text is not NAME=NUMBER, or a name is there twice.
    """
    wanted: dict[str, float | None] = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            number = float(value)
        except ValueError:
            raise UsageError(f"{text}: write QUOTA=NUMBER") from None
        if name in wanted:
            raise UsageError(f"{name} is there twice")
        wanted[name] = number
    return wanted


def _told(entity: dict[str, str | None]) -> str:
    return ", ".join(
        f"every {kind}" if name is None else f"{kind} {name}" for kind, name in entity.items()
    )


def _rows(one: ClientQuota) -> list[dict[str, Any]]:
    def told(kind: str) -> str | None:
        return (one.entity[kind] or "(default)") if kind in one.entity else None

    return [
        {
            "user": told(USER),
            "client_id": told(CLIENT_ID),
            "ip": told(IP),
            "quota": name,
            "value": int(value) if value == int(value) else value,
        }
        for name, value in sorted(one.quotas.items())
    ]
