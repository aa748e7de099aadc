"""Users and passwords with characters that mean something where they are written: in SCRAM's
messages, in login modules, in files of properties and of users, in the environment, in options.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sharegroup.cli.connecting import broker_of, properties_of
from sharegroup.client import Admin
from sharegroup.client.security.properties import parse_security
from sharegroup.client.security.settings import Security
from sharegroup.model.errors import SaslAuthenticationFailed
from sharegroup.sasl.jaas import PLAIN_MODULE
from sharegroup.sasl.users_file import parse_users, user_lines, without
from sharegroup.spark.options.security import split_security
from tests.broker.authentication.secured import HOST, secured

USERS = {
    "a,b": "semi;colon",
    "c=d": 'double"quote',
    "=2C": "single'quote",
    "%3A:x": "back\\slash\\n",
    'e"f;': "equals=sign, =2C",
    "#g\\": " ; \" ' \\ = # ! : é ",
}
BOTH = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def in_jaas(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def in_file(text: str) -> str:
    """A value of a file of properties, as Java writes it."""
    return text.replace("\\", "\\\\").replace(" ", "\\ ", 1 if text.startswith(" ") else 0)


def apart(mechanism: str, user: str, password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def in_one_line(mechanism: str, user: str, password: str) -> dict[str, str]:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    options = f"username={in_jaas(user)} password={in_jaas(password)}"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{module} required {options};",
    }


Properties = Mapping[str, str]


def by_dict(properties: Properties, folder: Path) -> Security:
    return parse_security(properties)


def by_command_config(properties: Properties, folder: Path) -> Security:
    path = folder / f"{len(list(folder.iterdir()))}.properties"
    path.write_text("".join(f"{name}={in_file(text)}\n" for name, text in properties.items()))
    return broker_of("x:1", str(path)).security


def by_environment(properties: Properties, folder: Path) -> Security:
    variables = {
        f"SHAREGROUP_{name.upper().replace('.', '_')}": text for name, text in properties.items()
    }
    return parse_security(properties_of(variables))


def by_spark_options(properties: Properties, folder: Path) -> Security:
    return split_security({f"kafka.{name}": text for name, text in properties.items()})[1]


WAYS: tuple[Callable[[Properties, Path], Security], ...] = (
    by_dict,
    by_command_config,
    by_environment,
    by_spark_options,
)


@pytest.mark.parametrize("way", WAYS)
def test_each_way_in_of_a_client_leaves_them_as_they_are(
    way: Callable[[Properties, Path], Security], tmp_path: Path
) -> None:
    for user, password in USERS.items():
        for mechanism in ("PLAIN", "SCRAM-SHA-512"):
            for written in (apart, in_one_line):
                found = way(written(mechanism, user, password), tmp_path)
                assert (found.username, found.password) == (user, password)


def users_file(path: Path) -> str:
    lines = [
        line
        for user, password in USERS.items()
        for line in user_lines(user, password, bytes(range(48)), 4096)
    ]
    path.write_text("\n".join([*lines, ""]))
    return f"sasl.users.file={path}"


def jaas(_: Path) -> str:
    options = " ".join(f"{in_jaas(f'user_{user}')}={in_jaas(USERS[user])}" for user in USERS)
    name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    return f"{name}={PLAIN_MODULE} required {options};"


@pytest.mark.parametrize(
    ("kept", "mechanisms"),
    [(users_file, ("PLAIN", *BOTH)), (jaas, ("PLAIN",)), (None, BOTH)],
    ids=["users file", "login module", "stored"],
)
def test_they_log_in(
    kept: Callable[[Path], str] | None, mechanisms: tuple[str, ...], tmp_path: Path
) -> None:
    """By each mechanism; a password that is nearly the same does not."""
    options = [
        f"sasl.enabled.mechanisms={','.join(mechanisms)}",
        "connection.failed.authentication.delay.ms=0",
    ]
    if kept is not None:
        options.append(kept(tmp_path / "users"))

    async def main() -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(asyncio.timeout(240))
            _, plaintext, port = await stack.enter_async_context(
                secured(tmp_path, "SASL_PLAINTEXT", *options)
            )
            if kept is None:
                admin = await stack.enter_async_context(Admin(f"{HOST}:{plaintext}"))
                for user, password in USERS.items():
                    await admin.upsert_scram_user(user, password, salt=b"salt", mechanisms=BOTH)
            for user, password in USERS.items():
                for mechanism in mechanisms:
                    security = parse_security(apart(mechanism, user, password))
                    async with Admin(f"{HOST}:{port}", security=security) as client:
                        await client.list_topics()
                security = parse_security(apart(mechanisms[0], user, password.replace("\\", "")))
                if "\\" in password:
                    with pytest.raises(SaslAuthenticationFailed):
                        async with Admin(f"{HOST}:{port}", security=security) as client:
                            await client.list_topics()

    asyncio.run(main())


def test_a_user_is_removed_however_its_name_is_written_in_the_file() -> None:
    """A name that somebody wrote by hand, without percent signs."""
    one, _, other = user_lines("a,b", "old", bytes(range(48)), 4096)
    text = f"# a,b:\n{one}\n{other.replace('a%2Cb', 'a,b')}\n"
    assert parse_users(text, "x").names == ["a,b"]
    assert without(text, "a,b") == "# a,b:\n"
    assert without(text, "a") == text
