"""What is said of a broker's own certificate and key."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from sharegroup.tls.key_warnings import key_warnings
from sharegroup.tls.self_signed import Identity, authority, signed
from sharegroup.tls.stores import PKCS12, KeyStore

CA = authority()
DAY = timedelta(days=1)


def pem(folder: Path, identity: Identity) -> KeyStore:
    file = folder / "both.pem"
    file.write_text(identity.key_pem + identity.certificate_pem + CA.certificate_pem)
    file.chmod(0o600)
    return KeyStore(location=str(file))


def pkcs12(folder: Path, identity: Identity) -> KeyStore:
    file = folder / "both.p12"
    file.write_bytes(identity.pkcs12("secret", [CA.certificate]))
    file.chmod(0o600)
    return KeyStore(type=PKCS12, location=str(file), password="secret")


def text(_: Path, identity: Identity) -> KeyStore:
    chain = identity.certificate_pem.replace("\n", " ")
    return KeyStore(certificate_text=chain, key_text=identity.key_pem)


FORMS = (pem, pkcs12, text)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("lifetime", "age", "said"),
    [
        (365 * DAY, 366 * DAY, "has expired at"),
        (13 * DAY, DAY, "expires at"),
        (365 * DAY, -2 * DAY, "is valid from"),
        (365 * DAY, DAY, None),
    ],
)
def test_dates(
    form: object, lifetime: timedelta, age: timedelta, said: str | None, tmp_path: Path
) -> None:
    assert callable(form)
    found = key_warnings(form(tmp_path, signed(CA, "broker", lifetime=lifetime, age=age)))
    assert len(found) == (said is not None)
    assert said is None or said in found[0]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_who_can_read_the_key(mode: int, tmp_path: Path) -> None:
    key = pem(tmp_path, signed(CA, "broker"))
    assert key.location is not None
    Path(key.location).chmod(mode)
    found = key_warnings(key)
    assert [warning for warning in found if "chmod 600" in warning] == found
    assert len(found) == (mode == 0o644)
