"""The time of a refusal does not tell whether there is such a user."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from sharegroup.sasl.scram_keys import ScramMechanism, credential, salt_password
from sharegroup.sasl.scram_messages import to_base64
from tests.secured.cells import USER, Credentials
from tests.secured.hostile.peers import port_of
from tests.secured.hostile.target import Target
from tests.secured.hostile.timing import NewLogin, measured, plain, scram
from tests.servers.process import HOST

pytestmark = pytest.mark.process

logger = logging.getLogger(__name__)

TRIES = {"PLAIN": (plain, 50), "SCRAM-SHA-256": (scram, 400)}
USERS = 2_000
"""With many users a look through all of them would show."""
SMALL_PART = 0.5
"""Of a refusal: what the medians may differ by, if not by chance. A hash that is left out, or a
look at every user, is more."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    return Target(
        tmp_path_factory.mktemp("target"),
        Credentials(tmp_path_factory.mktemp("credentials")),
        "connection.failed.authentication.delay.ms=0",
    )


def with_many_users(path: Path) -> None:
    """SCRAM users whose salted password is nobody's."""
    hashing = ScramMechanism.SHA_256
    salted = salt_password(hashing, "some password", bytes(16), 4096)
    kept = credential(hashing, salted, bytes(16), 4096)
    value = "$".join(map(to_base64, (kept.salt, kept.stored_key, kept.server_key)))
    lines = (f"{user}:SCRAM-SHA-256$4096${value}\n" for user in (USER, *_names()))
    with path.open("a") as file:
        file.writelines(lines)


def _names() -> list[str]:
    return [f"somebody{number}" for number in range(USERS)]


@pytest.mark.parametrize("by_tokens", [False, True], ids=["requests", "tokens"])
@pytest.mark.parametrize("mechanism", TRIES)
def test_unknown_users_and_wrong_passwords_take_as_long(
    target: Target, mechanism: str, by_tokens: bool
) -> None:
    new: NewLogin
    new, tries = TRIES[mechanism]
    with_many_users(target.users_file)
    with target:
        address = HOST, port_of(target.at("SASL_PLAINTEXT"))
        measured(address, new, 10, by_tokens=by_tokens)
        times = measured(address, new, tries, by_tokens=by_tokens)
    logger.info("%s: %s", mechanism, times)
    allowed_ms = max(3 * times.by_chance_ms, SMALL_PART * min(times.wrong_password))
    assert abs(times.difference_ms) <= allowed_ms, str(times)
