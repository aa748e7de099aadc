"""What is made once per machine and used by every test run after that.

The folder is `$XDG_CACHE_HOME/sharegroup/NAME`: complete or not there at all, because it gets its
name by a rename. A lock file keeps parallel runs from making it twice.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def cached_folder(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of this name; `make` fills an empty one when it is not there yet.

    What `make` raises is passed on, and then there is still no such folder.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sharegroup"
    folder = base / name
    if folder.exists():
        return folder
    base.mkdir(parents=True, exist_ok=True)
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=base, prefix="making-") as work:
                made = Path(work) / name
                made.mkdir()
                make(made)
                made.rename(folder)
    return folder
