"""What Spark's Python workers keep out of their garbage collections, and that nobody else does."""

from __future__ import annotations

import gc
import subprocess
import sys

from sharegroup.spark.task.worker_process import DAEMON, leave_modules_out_of_collections

AS_MAIN = f"""
import gc, sys
from importlib.machinery import ModuleSpec
sys.modules["__main__"].__spec__ = ModuleSpec("{DAEMON}", None)  # as python -m sets it
from sharegroup.spark.task.worker_process import leave_modules_out_of_collections
leave_modules_out_of_collections()
first = gc.get_freeze_count()
kept = [[] for _ in range(100)]
leave_modules_out_of_collections()
print(first > 1_000, gc.get_freeze_count() == first)
"""


def test_a_worker_of_spark_freezes_its_modules_once() -> None:
    done = subprocess.run([sys.executable, "-c", AS_MAIN], capture_output=True, text=True)
    assert done.stdout.split() == ["True", "True"], done.stderr


def test_other_processes_collect_as_before() -> None:
    before = gc.get_freeze_count()
    leave_modules_out_of_collections()
    assert gc.get_freeze_count() == before
