"""Tells of a data folder that other users of the machine can read."""

from __future__ import annotations

import logging
import os
import stat
from typing import Final

logger = logging.getLogger("sharegroup.broker")

_READABLE: Final = stat.S_IRWXG | stat.S_IRWXO
"""Who may only enter a folder can read its files by their names."""


def warn_of_open_folder(path: str) -> None:
    """Log one line if group or others have rights on the folder: records are in it, and what
    passwords are checked by. A folder that serve makes is its user's alone."""
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & _READABLE:
        logger.warning(
            "the data folder %s can be read by other users of this machine (mode %03o): "
            "records and SCRAM credentials are in it; chmod 700 %s",
            path,
            mode,
            path,
        )
