"""``sharegroup users``: who may log in."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer

from sharegroup.cli.broker_check import admin_of
from sharegroup.cli.confirmation import Yes, confirm
from sharegroup.cli.connecting import broker_of
from sharegroup.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    AsJson,
    BootstrapServer,
    CommandConfig,
    verbs,
)
from sharegroup.cli.outcome import UsageError, run
from sharegroup.cli.passwords import PasswordFile, new_password
from sharegroup.cli.tables import print_json, print_line, print_rows
from sharegroup.client.admin.scram_user_requests import ITERATIONS_DEFAULT
from sharegroup.model.errors import ConfigError
from sharegroup.sasl.mechanisms import PLAIN, SCRAM_SHA_256, SCRAM_SHA_512
from sharegroup.sasl.users_file import FileUsers, parse_users, user_lines, without

EXAMPLES: Final = """\
Examples:

\b
sharegroup users create admin --file users
sharegroup serve --listen SASL_SSL://0.0.0.0:9092 --tls-self-signed tls --users users
sharegroup users create spark --password-file spark.password
"""
_SALT_BYTES: Final = 16

Name = Annotated[str, typer.Argument(metavar="NAME")]
UsersFile = Annotated[
    Path | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="A file of users on this machine, for `sharegroup serve --users`, not a running "
        "broker. The broker reads it again on SIGHUP.",
    ),
]

users = verbs("Create, list and delete users of SASL listeners.")


def add_to(application: typer.Typer) -> None:
    """Add the commands."""
    application.add_typer(users, name="users")


@users.command(epilog=EXAMPLES)
def create(
    name: Name,
    file: UsersFile = None,
    password_file: PasswordFile = None,
    iterations: Annotated[
        int,
        typer.Option("--iterations", min=4096, max=16384, help="Of SCRAM's hash."),
    ] = ITERATIONS_DEFAULT,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Create a user, or give one a new password. In a running broker it is one of SCRAM-SHA-256 and
    SCRAM-SHA-512, in a file of PLAIN as well."""

    password = new_password(password_file)

    async def command() -> None:
        if file is not None:
            text = without(_text(file), name)
            lines = user_lines(name, password, os.urandom(3 * _SALT_BYTES), iterations)
            _write(file, text + "".join(f"{line}\n" for line in lines))
        else:
            async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
                await admin.upsert_scram_user(
                    name,
                    password,
                    mechanisms=(SCRAM_SHA_256, SCRAM_SHA_512),
                    iterations=iterations,
                )
        if as_json:
            print_json({"user": name})
        else:
            print_line(f"{name} can log in")

    run(command())


@users.command("list")
def list_users(
    file: UsersFile = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """List users and their mechanisms."""

    async def command() -> None:
        if file is not None:
            found = _of_file(_users(file))
        else:
            async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
                described = await admin.describe_scram_users()
            found = {user.name: sorted(user.iterations) for user in described}
        rows = [
            {"user": name, "mechanisms": mechanisms if as_json else ", ".join(mechanisms)}
            for name, mechanisms in found.items()
        ]
        print_rows(rows, ("user", "mechanisms"), as_json=as_json)

    run(command())


@users.command()
def delete(
    name: Name,
    file: UsersFile = None,
    yes: Yes = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    command_config: CommandConfig = None,
) -> None:
    """Delete a user. A running broker closes its open connections; with --file at SIGHUP."""

    async def command() -> None:
        if file is not None:
            if name not in _users(file).names:
                raise UsageError(f"there is no user {name} in {file}")
            _write(file, without(_text(file), name))
        else:
            async with admin_of(broker_of(bootstrap_server, command_config)) as admin:
                await admin.delete_scram_user(name)
        print_line(f"{name} is deleted")

    confirm(f"delete the user {name}", yes=yes)
    run(command())


def _of_file(found: FileUsers) -> dict[str, list[str]]:
    return {
        name: [
            *([PLAIN] if name in found.passwords else []),
            *sorted(kind.sasl_name for user, kind in found.credentials if user == name),
        ]
        for name in found.names
    }


def _users(path: Path) -> FileUsers:
    try:
        return parse_users(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None


def _text(path: Path) -> str:
    """The text of a file of users; empty if there is no such file."""
    if not path.exists():
        return ""
    _users(path)  # raises if it is no file of users: such a file is not changed
    text = path.read_text()
    return text if not text or text.endswith("\n") else f"{text}\n"


def _write(path: Path, text: str) -> None:
    """Replace the file, in one step, for those who could read it before: the broker may be another
    user than the one who runs the command. Only the latter can read a new file."""
    place = Path(os.path.realpath(path))  # a link to the file stays one
    try:
        before = place.stat() if place.exists() else None
        # A name that nobody knows: root must not write through what others have put there.
        descriptor, name = tempfile.mkstemp(prefix=f"{place.name}.", dir=place.parent)
        new = Path(name)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
                if before is not None:
                    _give(descriptor, before, path)
            new.replace(place)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def _give(descriptor: int, before: os.stat_result, path: Path) -> None:
    """Give a file the owner, the group and the mode of the one that it replaces."""
    try:
        os.fchown(descriptor, before.st_uid, before.st_gid)
    except OSError:
        raise UsageError(
            f"{path} would lose its owner, user {before.st_uid} and group {before.st_gid}: run "
            "this as that user, or as root"
        ) from None
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
