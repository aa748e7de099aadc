"""What a Python worker of Spark does once in its life, to make its tasks cheap.

After each task the worker collects garbage (``pyspark.daemon``), which looks at every object of
every module: 20 to 50 ms with NumPy and PyArrow, most of what a task of a small batch costs.
Modules are never garbage, so they are taken out of collections.
"""

from __future__ import annotations

import functools
import gc
import sys

DAEMON = "pyspark.daemon"


@functools.cache
def leave_modules_out_of_collections() -> None:
    """Call it when a task has imported and made what stays; only the first call in a process that
    collects after each task does anything."""
    specification = sys.modules["__main__"].__spec__
    if specification is not None and specification.name == DAEMON:
        gc.collect()
        gc.freeze()
