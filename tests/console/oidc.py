"""An OpenID provider that others wrote (oidc-provider-mock) as a process, and a broker that takes
its ID tokens."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.console.secured import ServerWithLogins
from tests.servers.process import HOST, ServerProcess, free_port

CLIENT: Final = "the-console"
SECRET: Final = "canary of the client"
START_S: Final = 60


@contextmanager
def provider(folder: Path, *options: str) -> Iterator[str]:
    """The provider's address. It logs in whoever says a name."""
    port = free_port()
    command = [sys.executable, "-m", "oidc_provider_mock", "--port", str(port), *options]
    process = ServerProcess(command, log_path=folder / "provider.log", environment={})
    process.start()
    try:
        process.wait_until(lambda: "running on" in process.output().lower(), timeout_s=START_S)
        yield f"http://{HOST}:{port}"
    finally:
        process.kill()


def settings(folder: Path, issuer: str) -> Path:
    """A file for --login-oidc."""
    found = {"issuer": issuer, "client.id": CLIENT, "client.secret": SECRET}
    found["broker.token"] = "id_token"
    file = folder / "oidc.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in found.items()))
    return file


class TokenServer(ServerWithLogins):
    """They log in by the provider's ID tokens."""

    def __init__(self, folder: Path, issuer: str) -> None:
        super().__init__(
            folder,
            "sasl.enabled.mechanisms=OAUTHBEARER",
            f"sasl.oauthbearer.jwks.endpoint.url={issuer}/jwks",
            f"sasl.oauthbearer.expected.audience={CLIENT}",
            f"sasl.oauthbearer.expected.issuer={issuer}",
        )
