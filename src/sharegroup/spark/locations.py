"""Folders as users write them in options. Tasks read options too, so this imports little."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlparse

from sharegroup.model.errors import ConfigError


def folder(name: str, text: str) -> str:
    """The value of an option like ``ackLocation`` as an absolute path.

    Raises:
        ConfigError: the path is relative, or not on a file system.
    """
    parsed = urlparse(text.strip())
    path = unquote(parsed.path) if parsed.scheme == "file" else text.strip()
    if parsed.scheme not in ("", "file") or parsed.netloc not in ("", "localhost"):
        raise ConfigError(
            f"{name} is {text!r}: write a folder of the driver's file system or of one mounted "
            "there; object stores are not supported"
        )
    if not os.path.isabs(path):
        raise ConfigError(f"{name} is {text!r}: write an absolute path")
    return path


def commit_file(checkpoint: str | None, batch_id: int | None) -> str | None:
    """The file that Spark will write into a query's checkpoint when it commits the batch that its
    sink commits now; None if this host cannot see it.

    A path without a scheme is one of Spark's default file system, which may be another than this
    host's. A folder of the same name here does not have the batch's offsets, or has its commit
    already.
    """
    if checkpoint is None or batch_id is None:
        return None
    text = checkpoint.strip()
    given = text if urlparse(text).scheme else os.path.abspath(text)
    try:
        where = folder("checkpointLocation", given)
    except ConfigError:
        return None
    commit = f"{where}/commits/{batch_id}"
    runs_now = os.path.exists(f"{where}/offsets/{batch_id}") and not os.path.exists(commit)
    return commit if runs_now else None
