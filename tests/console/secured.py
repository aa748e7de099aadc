"""A broker with users and ACLs: alice may do everything, bob nothing that no ACL allows."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sharegroup.sasl.users_file import user_lines
from tests.servers.process import HOST, free_port
from tests.servers.sharegroup_server import SharegroupServer

PASSWORDS: Final = {"alice": "canary of alice", "bob": "canary of bob"}
SALT: Final = bytes(range(48))


class ServerWithLogins(SharegroupServer):
    """Whoever does not log in, at ``bootstrap``, may do everything too: the tests prepare there.
    ``secured`` is the address for alice and bob, who log in as ``logins`` say."""

    def __init__(self, folder: Path, *logins: str) -> None:
        port, secured = free_port(), free_port()
        self.secured = f"{HOST}:{secured}"
        super().__init__(
            folder,
            f"listeners=PLAINTEXT://{HOST}:{port},SASL_PLAINTEXT://{self.secured}",
            "authorizer.class.name=StandardAuthorizer",
            "super.users=User:ANONYMOUS;User:alice",
            *logins,
            port=port,
        )
        self.process.command = [
            part for part in self.process.command if part not in ("--listen", self.bootstrap)
        ]


class SecuredServer(ServerWithLogins):
    """They log in by passwords."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.users = folder / "users"
        self.write_users(*PASSWORDS)
        super().__init__(
            folder,
            "sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN",
            f"sasl.users.file={self.users}",
            *options,
        )

    def write_users(self, *names: str) -> None:
        """These users are known when the broker starts."""
        lines = [line for name in names for line in user_lines(name, PASSWORDS[name], SALT, 4096)]
        self.users.write_text("\n".join([*lines, ""]))
