"""Whether the files of stores have changed, without reading them."""

from __future__ import annotations

import os

from sharegroup.tls.stores import KeyStore, TrustStore

Stamp = tuple[tuple[str, int, int, int], ...]
"""Of each file: its name, number, size and time of change."""


def files_stamp(trust: TrustStore, key: KeyStore) -> Stamp:
    """A stamp that differs from an earlier one if a file of the stores was changed or replaced. A
    file that cannot be looked at counts as an empty file: to read it gives the error.
    """
    files = (trust.location, key.location, key.certificate_location, key.key_location)
    return tuple(_stamp(name) for name in files if name)


def _stamp(name: str) -> tuple[str, int, int, int]:
    try:
        found = os.stat(name)
    except OSError:
        return name, 0, 0, 0
    return name, found.st_ino, found.st_size, found.st_mtime_ns
