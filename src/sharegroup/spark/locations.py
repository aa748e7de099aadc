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
    """The file that Spark writes into a query's checkpoint when it commits a batch; None if this
    host cannot see it."""
    if checkpoint is None or batch_id is None:
        return None
    try:
        return f"{folder('checkpointLocation', checkpoint)}/commits/{batch_id}"
    except ConfigError:
        return None
