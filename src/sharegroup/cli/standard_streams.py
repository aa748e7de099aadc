"""Standard input, output and error of a command that was started without some of them (``<&-``)."""

from __future__ import annotations

import errno
import os
import sys
from typing import Final

_MODES: Final = {"stdin": "r", "stdout": "w", "stderr": "w"}


def open_missing_streams() -> None:
    """Open ``/dev/null`` for each standard stream that is closed.

    The system gives the next file or socket the lowest number that is free: an error message
    would be written into it, and uvloop aborts the process when it closes one below 3. Python
    itself sets ``sys.stdout`` and the others to None, where ``print`` for one of them may go to
    another.
    """
    for number in range(len(_MODES)):
        if not _is_open(number):
            os.open(os.devnull, os.O_RDWR)  # gets this number: the lower ones are open by now
            os.set_inheritable(number, True)
    for name, mode in _MODES.items():
        if getattr(sys, name) is None:
            # Not by its number, which something that was loaded before may have taken.
            nowhere = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(nowhere, mode, closefd=False))  # noqa: SIM115  until the end


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError as error:
        return error.errno != errno.EBADF
    return True
