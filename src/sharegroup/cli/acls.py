"""``sharegroup acls``: add, list, remove."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable
from itertools import product
from typing import Annotated, Any, Final

import typer

from sharegroup.cli.acl_words import (
    COLUMNS,
    ChosenResources,
    parse_operations,
    row_of,
    unreadable,
)
from sharegroup.cli.broker_check import admin_of
from sharegroup.cli.completion import complete_groups, complete_topics
from sharegroup.cli.confirmation import Yes, confirm
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    AsJson,
    BootstrapServer,
    CommandConfig,
    verbs,
)
from sharegroup.cli.outcome import ExitCode, UsageError, complain, exit_code, explain, run
from sharegroup.cli.tables import count, print_json, print_line, print_rows
from sharegroup.client.admin.acls import Acl, AclFilter
from sharegroup.model.acl import AclOperation, AclPattern, AclResource
from sharegroup.model.printable import printable

acls = verbs("Show, add and remove ACLs: who may do what on which topics and groups.")

EXAMPLES: Final = """\
Examples:

\b
sharegroup acls add User:alice --consumer --topic jobs --group workers
sharegroup acls add User:bob --producer --topic jobs- --prefixed
sharegroup acls add User:eve --operation all --topic secret --deny
sharegroup acls list --topic jobs-1 --matching
sharegroup acls list --csv > acls.csv
sharegroup acls remove --principal User:eve --yes
"""
CONSUMER: Final = {
    AclResource.TOPIC: AclOperation.READ,
    AclResource.GROUP: AclOperation.READ,
}
PRODUCER: Final = {
    AclResource.TOPIC: AclOperation.WRITE,
    AclResource.TRANSACTIONAL_ID: AclOperation.WRITE,
}

Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", "-t", metavar="TOPIC", help="Repeatable.", autocompletion=complete_topics
    ),
]
Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--group", "-g", metavar="GROUP", help="Repeatable.", autocompletion=complete_groups
    ),
]
Ids = Annotated[
    list[str] | None, typer.Option("--transactional-id", metavar="ID", help="Repeatable.")
]
Cluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
Operations = Annotated[
    list[str] | None,
    typer.Option(
        "--operation",
        "-o",
        metavar="OPERATION,…",
        help="read, write, describe, delete, create, alter, all …; repeatable.",
    ),
]
Host = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="The client's IP address, or *.")
]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="The names are beginnings of names.")]
Matching = Annotated[
    bool,
    typer.Option("--matching", help="Every ACL that concerns these names, by whatever pattern."),
]
Principal = Annotated[
    str | None, typer.Option("--principal", metavar="User:NAME", help="Only those for this one.")
]


def add_to(application: typer.Typer) -> None:
    """Add the commands."""
    application.add_typer(acls, name="acls")


@acls.command(epilog=EXAMPLES)
def add(
    principal: Annotated[
        str, typer.Argument(metavar="User:NAME", help="Who; User:* is everybody.")
    ],
    operations: Operations = None,
    consumer: Annotated[
        bool, typer.Option("--consumer", help="What a consumer needs: read on topics and groups.")
    ] = False,
    producer: Annotated[
        bool,
        typer.Option(
            "--producer", help="What a producer needs: write on topics and transactional ids."
        ),
    ] = False,
    topics: Topics = None,
    groups: Groups = None,
    ids: Ids = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    host: Host = None,
    deny: Annotated[bool, typer.Option("--deny", help="Deny it; a deny wins over allows.")] = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Allow or deny somebody operations on topics, groups, transactional ids or the cluster. An ACL
    that exists is no error.
    """

    async def command() -> None:
        resources = ChosenResources.of(topics, groups, ids, cluster=cluster)
        wanted = [
            Acl(
                principal=_checked(principal),
                operation=operation,
                resource=resource,
                name=name,
                pattern=AclPattern.PREFIXED if prefixed else AclPattern.LITERAL,
                host=host or "*",
                allow=not deny,
            )
            for resource, name in resources.required()
            for operation in _operations(resource, operations, consumer, producer)
        ]
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            await admin.create_acls(*wanted)
        if as_json:
            print_json([row_of(acl) for acl in wanted])
        else:
            print_line(f"{count(len(wanted), 'ACL')} in force")

    run(command())


@acls.command("list", epilog=EXAMPLES)
def list_acls(
    principal: Principal = None,
    operations: Operations = None,
    topics: Topics = None,
    groups: Groups = None,
    ids: Ids = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    matching: Matching = False,
    host: Host = None,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print CSV, as authorizer.acl.file takes it.")
    ] = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """List the ACLs in force, those of the broker's file among them."""

    async def command() -> ExitCode:
        resources = ChosenResources.of(topics, groups, ids, cluster=cluster)
        filters = _filters(
            resources, principal, operations, host, _pattern(prefixed, matching=matching)
        )
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            found = {acl for each in filters for acl in await admin.describe_acls(each)}
        rows = [row_of(acl) for acl in sorted(found)]
        if as_csv:
            return _print_csv(rows)
        print_rows(rows, COLUMNS, as_json=as_json)
        return ExitCode.DONE

    run(command())


@acls.command(epilog=EXAMPLES)
def remove(
    principal: Principal = None,
    operations: Operations = None,
    topics: Topics = None,
    groups: Groups = None,
    ids: Ids = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    matching: Matching = False,
    host: Host = None,
    every: Annotated[bool, typer.Option("--all", help="All ACLs.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed, and remove nothing.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Remove the ACLs that match. Asks first, unless --yes is given. ACLs of the broker's file stay
    in force.
    """
    chosen = (principal, operations, topics, groups, ids, cluster, host)

    async def command() -> ExitCode:
        if any(chosen) == every:
            raise UsageError("say which ACLs, or --all")
        resources = ChosenResources.of(topics, groups, ids, cluster=cluster)
        filters = _filters(
            resources, principal, operations, host, _pattern(prefixed, matching=matching)
        )
        async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
            if dry_run:
                found = {acl for each in filters for acl in await admin.describe_acls(each)}
                print_rows([row_of(acl) for acl in sorted(found)], COLUMNS, as_json=as_json)
                return ExitCode.DONE
            outcome = await admin.delete_acls(*filters)
        removed = sorted(acl for acl, error in outcome.items() if error is None)
        refused = {acl: error for acl, error in outcome.items() if error is not None}
        if as_json:
            print_json({"removed": [row_of(acl) for acl in removed], "kept": len(refused)})
        else:
            print_line(f"{count(len(removed), 'ACL')} removed")
        for sentence in dict.fromkeys(explain(error) for error in refused.values()):
            complain(sentence)
        return max(map(exit_code, refused.values()), default=ExitCode.DONE)

    if any(chosen) != every and not dry_run:
        names = [name for names in (topics, groups, ids) for name in names or ()]
        words = [*filter(None, (principal, host)), *(operations or ()), *names]
        words += ["the cluster"] if cluster else []
        which = "all ACLs" if every else f"the ACLs that match {', '.join(words)}"
        confirm(f"remove {which}", yes=yes)
    run(command())


def _operations(
    resource: AclResource, named: list[str] | None, consumer: bool, producer: bool
) -> list[AclOperation]:
    """The operations to allow on a resource of this type.

    Raises:
        UsageError: there is no operation to allow.
    """
    found = parse_operations(named or [])
    for wanted, table in ((consumer, CONSUMER), (producer, PRODUCER)):
        if wanted and resource in table:
            found.append(table[resource])
    if not found:
        raise UsageError(
            f"say what is allowed on the {resource.name.lower().replace('_', ' ')}: --operation, "
            "--consumer (topics and groups) or --producer (topics and transactional ids)"
        )
    return list(dict.fromkeys(found))


def _filters(
    resources: ChosenResources,
    principal: str | None,
    operations: list[str] | None,
    host: str | None,
    pattern: AclPattern | None,
) -> list[AclFilter]:
    wanted: list[tuple[AclResource | None, str | None]] = [*resources.chosen] or [(None, None)]
    words: list[AclOperation | None] = [*parse_operations(operations or [])] or [None]
    return [
        AclFilter(
            principal=principal,
            operation=operation,
            resource=resource,
            name=name,
            pattern=pattern,
            host=host,
        )
        for (resource, name), operation in product(wanted, words)
    ]


def _pattern(prefixed: bool, *, matching: bool) -> AclPattern | None:
    if prefixed and matching:
        raise UsageError("--prefixed and --matching exclude each other")
    if matching:
        return AclPattern.MATCHING
    return AclPattern.PREFIXED if prefixed else None


def _checked(principal: str) -> str:
    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        raise UsageError(f"{principal!r} is no principal; write User:NAME, such as User:alice")
    return principal


def _print_csv(rows: Iterable[dict[str, Any]]) -> ExitCode:
    """Print the rows. A row that the broker would refuse in a file, or read as another right, is
    left out, with an error. On a terminal, where no broker reads the rows, control characters in
    names are escaped."""
    shown = printable if sys.stdout.isatty() else str
    sys.stdout.write(",".join(COLUMNS) + "\n")
    status = ExitCode.DONE
    for row in rows:
        text = io.StringIO()
        csv.DictWriter(text, COLUMNS, lineterminator="").writerow(row)
        why = unreadable(text.getvalue(), row)
        if why is None:
            sys.stdout.write(shown(text.getvalue()) + "\n")
            continue
        names = f"{row['principal']!r} on {row['name']!r}"
        complain(f"left out {names}: {why}")
        status = ExitCode.REFUSED
    return status
