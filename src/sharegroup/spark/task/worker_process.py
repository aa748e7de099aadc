"""Makes tasks cheap, by a step that each Python worker of Spark takes once.

After each task the worker collects garbage (``pyspark.daemon``), which visits every object of every
module. With NumPy and PyArrow that takes 20 to 50 ms, most of the cost of a small batch's task.
Modules are never garbage, so they are excluded from collections.
"""

from __future__ import annotations

import functools
import gc
import sys

DAEMON = "pyspark.daemon"


@functools.cache
def leave_modules_out_of_collections() -> None:
    """Call this after a task has imported its modules and made its lasting objects. Only the first
    call has an effect, and only in a process that collects after each task."""
    specification = sys.modules["__main__"].__spec__
    if specification is not None and specification.name == DAEMON:
        gc.collect()
        gc.freeze()
