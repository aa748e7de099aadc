"""`sharegroup users`, and a broker that starts secured from nothing."""

from __future__ import annotations

import errno
import os
import signal
import stat
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sharegroup.sasl.users_file import parse_users
from tests.cli.command import Commands
from tests.cli.test_serve_addresses import refused, serving
from tests.servers.admin import SILENT
from tests.servers.process import HOST, free_port

pytestmark = pytest.mark.process
SECONDS = 240
NO_BROKER = Commands(f"{HOST}:1")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def access(path: Path) -> tuple[int, int, int]:
    return path.stat().st_uid, path.stat().st_gid, mode(path)


def test_users_of_a_broker(own_commands: Commands, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("canary\n")
    done = own_commands.ok("users", "create", "alice", "--password-file", str(password))
    assert done.stdout == "alice can log in\n"
    assert own_commands.ok("users", "create", "bob", "--json", stdin="canary\n").json == {
        "user": "bob"
    }
    listed = own_commands.ok("users", "list", "--json").json
    assert [row["user"] for row in listed] == ["alice", "bob"]
    assert listed[0]["mechanisms"] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    own_commands.ok("users", "delete", "alice", "--yes")
    assert [row["user"] for row in own_commands.given("users", "list", "--json").json] == ["bob"]
    again = own_commands.inside("users", "delete", "alice", "--yes")
    assert again.status == 1
    assert "RESOURCE_NOT_FOUND" in again.stderr
    assert "canary" not in done.stdout + done.stderr


def test_users_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "users"
    file = ("--file", str(path))
    NO_BROKER.ok("users", "create", "alice", *file, stdin="canary\n")
    NO_BROKER.given("users", "create", "bob", *file, stdin="other")
    NO_BROKER.given("users", "create", "alice", *file, stdin="canary 2\n")
    assert mode(path) == 0o600
    assert "canary" not in path.read_text()
    assert len(path.read_text().splitlines()) == 6
    listed = NO_BROKER.ok("users", "list", *file, "--json").json
    assert [row["user"] for row in listed] == ["alice", "bob"]
    NO_BROKER.ok("users", "delete", "alice", *file, "--yes")
    left = NO_BROKER.given("users", "list", *file, "--json").json
    assert [row["user"] for row in left] == ["bob"]
    assert NO_BROKER.inside("users", "delete", "alice", *file, "--yes").status == 2
    assert NO_BROKER.inside("users", "create", "c", *file, stdin="\n").status == 2
    path.write_text(path.read_text(), encoding="utf-8-sig")  # an editor adds a BOM
    NO_BROKER.given("users", "create", "bob", *file, stdin="another\n")
    assert parse_users(path.read_text(), "it").passwords["bob"].matches("another")
    password = tmp_path / "password"
    password.write_text("from a file\n", encoding="utf-8-sig")
    NO_BROKER.given("users", "create", "bob", *file, "--password-file", str(password))
    NO_BROKER.given("users", "create", "c", *file, stdin="\ufefffrom a pipe\r\n")
    passwords = parse_users(path.read_text(), "it").passwords
    assert passwords["bob"].matches("from a file")
    assert passwords["c"].matches("from a pipe")
    other = tmp_path / "other"
    other.write_text("this is something else\n")
    refusal = NO_BROKER.run("users", "create", "c", "--file", str(other), stdin="x")
    assert refusal.status == 2
    assert other.read_text() == "this is something else\n"
    assert "line 1" in refusal.stderr


def test_a_file_stays_that_of_the_brokers_user(tmp_path: Path) -> None:
    """Root adds a user to the file that the service's user reads."""
    path, link = tmp_path / "of-the-service", tmp_path / "users"
    NO_BROKER.given("users", "create", "alice", "--file", str(path), stdin="canary\n")
    owner = (10001, 10002) if os.geteuid() == 0 else (-1, max(os.getgroups(), default=-1))
    os.chown(path, *owner)
    path.chmod(0o640)
    before = access(path)
    link.symlink_to(path.name)
    for changed in (path, link):
        file = ("--file", str(changed))
        NO_BROKER.given("users", "create", "bob", *file, stdin="canary\n")
        assert (access(path), link.is_symlink()) == (before, True)
        NO_BROKER.given("users", "delete", "bob", *file, "--yes")
        assert (access(path), link.is_symlink()) == (before, True)
    assert {*tmp_path.iterdir()} == {path, link}


def test_a_file_that_would_become_another_users_is_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "users"
    file = ("--file", str(path))
    NO_BROKER.given("users", "create", "alice", *file, stdin="canary\n")
    before = (path.read_text(), path.stat().st_ino, access(path))

    def refuse(descriptor: int, uid: int, gid: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "fchown", refuse)  # as for who is neither root nor the owner
    done = NO_BROKER.inside("users", "delete", "alice", *file, "--yes")
    assert (done.status, done.stdout) == (2, "")
    assert (
        f"{path} would lose its owner, user {before[2][0]} and group {before[2][1]}: "
        in done.stderr
    )
    assert (path.read_text(), path.stat().st_ino, access(path)) == before
    assert [*tmp_path.iterdir()] == [path]


def test_what_was_put_where_the_new_file_is_written_is_not_written_through(tmp_path: Path) -> None:
    path, other = tmp_path / "users", tmp_path / "other"
    other.write_text("of root\n")
    (tmp_path / "users.new").symlink_to(other)
    NO_BROKER.given("users", "create", "alice", "--file", str(path), stdin="canary\n")
    assert other.read_text() == "of root\n"
    assert (path.is_symlink(), mode(path)) == (False, 0o600)


def test_names_and_passwords_with_odd_characters(own_commands: Commands, tmp_path: Path) -> None:
    """What other programs and files would read as something else is kept as it is written."""
    names, password = ["a,=2C", "%41"], " ; \" ' \\ = "
    file = tmp_path / "users"
    for name in names:
        NO_BROKER.given("users", "create", name, "--file", str(file), stdin=f"{password}\n")
    found = parse_users(file.read_text(), "it")
    assert found.names == sorted(names)
    assert all(found.passwords[name].matches(password) for name in names)
    for name in names:
        own_commands.given("users", "create", name, stdin=f"{password}\n")
    listed = own_commands.given("users", "list", "--json").json
    assert [row["user"] for row in listed] == sorted(names)
    for name in names:
        own_commands.given("users", "delete", name, "--yes")
    assert own_commands.given("users", "list", "--json").json == []


def produce(port: int, folder: Path, user: str, password: str) -> int:
    producer = Producer(
        {
            "bootstrap.servers": f"{HOST}:{port}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(folder / "ca.pem"),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
            **SILENT,
        }
    )
    producer.produce("jobs", b"1")
    return producer.flush(SECONDS)


def test_from_nothing_to_scram_over_tls(tmp_path: Path) -> None:
    port, users, tls = free_port(), tmp_path / "users", tmp_path / "tls"
    NO_BROKER.ok("users", "create", "alice", "--file", str(users), stdin="canary\n")
    listen = ("--listen", f"SASL_SSL://0.0.0.0:{port}", "--users", str(users))
    advertised = ("-o", f"advertised.listeners=SASL_SSL://localhost:{port}")
    with serving(tmp_path, *listen, *advertised, "--tls-self-signed", str(tls)) as server:
        said = server.output()
        for line in (
            "security.protocol=SASL_SSL",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={tls / 'ca.pem'}",
            "sasl.mechanism=SCRAM-SHA-512",
        ):
            assert f"\n  {line}\n" in f"\n{said}"
        assert produce(port, tls, "alice", "canary") == 0
        NO_BROKER.ok("users", "create", "bob", "--file", str(users), stdin="canary\n")
        os.kill(server.pid, signal.SIGHUP)
        server.wait_until(
            lambda: "users of 1 listeners are in force" in server.output(), timeout_s=SECONDS
        )
        assert produce(port, tls, "bob", "canary") == 0
        kept = users.read_text()
        users.write_text("nonsense\n")
        os.kill(server.pid, signal.SIGHUP)
        server.wait_until(lambda: "users were not reloaded" in server.output(), timeout_s=SECONDS)
        assert produce(port, tls, "bob", "canary") == 0  # the old ones hold
        assert "nothing to reload" not in server.output()
        users.write_text(kept)
        assert "canary" not in server.output()
    assert mode(tls / "ca.key") == mode(tls / "broker.pem") == 0o600
    authority = (tls / "ca.pem").read_text()
    with serving(tmp_path, *listen, *advertised, "--tls-self-signed", str(tls)):
        assert (tls / "ca.pem").read_text() == authority
        assert produce(port, tls, "alice", "canary") == 0


def test_what_does_not_start(tmp_path: Path) -> None:
    port = free_port()
    for words, sentence in (
        (("--listen", f"0.0.0.0:{port}"), "add --insecure"),
        (("--listen", f"SSL://{HOST}:{port}"), "a TLS listener needs a key"),
        (("--listen", f"NAME://{HOST}:{port}"), "NAME has no protocol"),
        (
            ("--listen", f"SASL_PLAINTEXT://{HOST}:{port}", "--users", "nowhere"),
            "sasl.users.file nowhere cannot be read",
        ),
        (
            (
                *("--listen", f"SASL_PLAINTEXT://{HOST}:{port}"),
                *("-o", "sasl.enabled.mechanisms=PLAIN"),
            ),
            "offers PLAIN and knows no users",
        ),
        (
            (
                *("--listen", f"SASL_PLAINTEXT://{HOST}:{port}"),
                *("-o", "sasl.enabled.mechanisms=OAUTHBEARER"),
            ),
            "offers OAUTHBEARER: set sasl.oauthbearer.jwks.endpoint.url",
        ),
    ):
        status, said = refused(tmp_path, *words)
        assert status == 2
        assert sentence in said


@pytest.mark.parametrize(("again", "status"), [("canary", 0), ("canery", 2)])
def test_the_password_is_asked_for_without_being_shown(
    tmp_path: Path, again: str, status: int
) -> None:
    file = ("--file", str(tmp_path / "users"))
    done, shown = NO_BROKER.answering(
        "canary\n",
        *("users", "create", "alice", *file),
        after="Password: ",
        then=("Once more: ", f"{again}\n"),
    )
    assert done == status, shown
    assert "Once more: " in shown
    assert "can" not in shown.replace("alice can log in", "")


def test_ctrl_c_ends_the_question_for_the_password(tmp_path: Path) -> None:
    file = tmp_path / "users"
    done, _shown = NO_BROKER.answering(
        "canary\n",
        *("users", "create", "alice", "--file", str(file)),
        after="Password: ",
        then=("Once more: ", "\x03"),
    )
    assert done == 130
    assert not file.exists()


def test_a_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "no-folder").touch()
    for file in (tmp_path / "nowhere" / "users", tmp_path / "no-folder" / "users"):
        done = NO_BROKER.inside("users", "create", "alice", "--file", str(file), stdin="canary\n")
        assert done.status == 2
        assert f"{file} cannot be written" in done.stderr
