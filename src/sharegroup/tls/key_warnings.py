"""What an operator should know of a broker's own certificate and key, although they can be used."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from sharegroup.tls.pem import in_lines
from sharegroup.tls.stores import PKCS12, KeyStore

SOON: Final = timedelta(days=14)
"""A certificate that expires within this time gets a warning."""


def key_warnings(key: KeyStore, now: datetime | None = None) -> list[str]:
    """A sentence for a certificate that has expired, will soon, or is not valid yet, and for a key
    that every user of the machine can read. The caller has made a context of the store before, so
    it can be read.
    """
    return [*_dates(key, now or datetime.now(UTC)), *_mode(key)]


def _dates(key: KeyStore, now: datetime) -> list[str]:
    from cryptography.x509 import load_pem_x509_certificate

    what = key.location or key.certificate_location or "the PEM text"
    if key.location and key.type == PKCS12:
        from cryptography.hazmat.primitives.serialization import pkcs12

        store = pkcs12.load_pkcs12(
            Path(key.location).read_bytes(), (key.password or "").encode() or None
        )
        if store.cert is None:
            return []
        certificate = store.cert.certificate
    else:
        file = key.location or key.certificate_location
        text = Path(file).read_text() if file else in_lines(key.certificate_text or "")
        certificate = load_pem_x509_certificate(text.encode())
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    found = f"the certificate of {what}"
    if ends <= now:
        return [f"{found} has expired at {ends:%Y-%m-%d %H:%M} UTC: clients will not connect"]
    if begins > now:
        return [f"{found} is valid from {begins:%Y-%m-%d %H:%M} UTC on: compare the clocks"]
    if ends <= now + SOON:
        return [f"{found} expires at {ends:%Y-%m-%d %H:%M} UTC: renew it, then send SIGHUP"]
    return []


def _mode(key: KeyStore) -> list[str]:
    file = key.location or key.key_location
    if not file or not os.stat(file).st_mode & stat.S_IROTH:
        return []
    return [f"{file} holds a private key, and every user of this machine can read it: chmod 600"]
