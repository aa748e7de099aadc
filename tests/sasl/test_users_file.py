from __future__ import annotations

import pytest

from sharegroup.model.errors import ConfigError, MalformedMessage
from sharegroup.sasl.jaas import PLAIN_MODULE, jaas_users
from sharegroup.sasl.password_hash import PasswordHash
from sharegroup.sasl.scram_keys import ScramMechanism
from sharegroup.sasl.users_file import parse_users, user_lines, without

SALT = bytes(range(48))


def test_what_is_written_is_read() -> None:
    name = "a:b\n%ü"
    lines = user_lines(name, "secret", SALT, 4096)
    found = parse_users("# users\n\n" + "\n".join(lines), "users")
    assert found.names == [name]
    assert found.passwords[name].matches("secret")
    assert not found.passwords[name].matches("Secret")
    salts = {found.credentials[name, mechanism].salt for mechanism in ScramMechanism}
    assert salts == {SALT[16:32], SALT[32:48]}
    assert "secret" not in repr(found) + "".join(lines)


def test_a_user_is_taken_out() -> None:
    text = "a:x\nab:y\n a:z\n"
    assert without(text, "a") == "ab:y\n"


def test_a_byte_order_mark_belongs_to_no_name() -> None:
    lines = "".join(f"{line}\n" for line in user_lines("alice", "secret", SALT, 4096))
    for first in ("", "# users\n"):
        text = f"\ufeff{first}{lines}"
        assert parse_users(text, "users").names == ["alice"]
        assert parse_users(without(text, "alice"), "users").names == []


@pytest.mark.parametrize(
    "line",
    [
        "alice",
        ":scrypt$16384$8$1$AAAA$AAAA",
        "alice:secret",
        "alice:scrypt$1000$8$1$AAAA$AAAA",
        "alice:scrypt$1073741824$8$1$AAAA$AAAA",
        "alice:scrypt$16384$99$1$AAAA$AAAA",
        "alice:scrypt$16384$8$1$!$AAAA",
        "alice:SCRAM-SHA-256$4096$AAAA$AAAA",
        "alice:SCRAM-SHA-256$0$AAAA$AAAA$AAAA",
        "alice:SCRAM-SHA-1$4096$AAAA$AAAA$AAAA",
    ],
)
def test_wrong_lines_are_named_by_their_number(line: str) -> None:
    with pytest.raises(ConfigError, match="users, line 2: ") as refused:
        parse_users(f"# first\n{line}\n", "users")
    assert "secret" not in str(refused.value)


def test_a_hash_is_text() -> None:
    made = PasswordHash.of("x", b"0123456789abcdef")
    assert PasswordHash.parse(made.text) == made
    with pytest.raises(MalformedMessage):
        PasswordHash.parse("")


def test_users_of_a_jaas_config() -> None:
    text = (
        f'{PLAIN_MODULE} required\n username="admin" password="p"\n'
        ' user_admin="p" user_alice="a \\"quoted\\" one;" user_bob=plain;'
    )
    assert jaas_users("x", text) == {"admin": "p", "alice": 'a "quoted" one;', "bob": "plain"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        f'{PLAIN_MODULE} required user_alice="hunter2"',
        f"{PLAIN_MODULE} required user_alice=hunter2 hunter2;",
        'org.example.Other required user_alice="hunter2";',
        f'{PLAIN_MODULE} sometimes user_alice="hunter2";',
    ],
)
def test_a_wrong_jaas_config_does_not_tell_passwords(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^plain\.sasl\.jaas\.config ") as refused:
        jaas_users("plain.sasl.jaas.config", text)
    assert "hunter2" not in str(refused.value)
