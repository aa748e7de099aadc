"""Ships objects to executors, with a clear error on an executor that lacks this package.

Spark pickles the source, its readers, writers and tasks on the driver, and a pickle names the
classes that it needs. If an executor cannot import them, the user would see a stack trace of the
unpickling. So the pickle holds the function :func:`arrive` as code, and everything else as bytes
that are unpickled only if the package is there. If it is not, the task fails with one sentence.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle

from sharegroup import __version__


def shipped(kind: type, *arguments: object) -> tuple[Callable[..., Any], tuple[object, ...]]:
    """The result of ``__reduce__`` for an object that ``kind(*arguments)`` makes again."""
    packed = pickle.dumps(arguments, pickle.HIGHEST_PROTOCOL)
    return arrive, (kind.__module__, kind.__qualname__, packed, __version__)


def arrive(module: str, name: str, packed: bytes, version: str) -> Any:
    """The object; if it cannot be made in this process, a substitute that says why when it is used.
    This function uses nothing of this package, because it also runs if the package is missing."""
    import importlib.util
    import pickle
    import socket
    import sys

    from pyspark.sql.datasource import InputPartition

    def stands_for(sentence: str) -> object:
        class NotHere(InputPartition):
            def __init__(self) -> None:
                super().__init__(None)

            @classmethod
            def name(cls) -> str:
                return "kafka-share"

            def read(self, partition: object) -> object:
                raise ImportError(sentence)

            write = read

        return NotHere()

    where = f"the Python of the executor on {socket.gethostname()} ({sys.executable})"
    advice = f"install sharegroup[spark]=={version} there, see docs/spark.md#deploying"
    try:
        found = importlib.import_module("sharegroup").__version__
        if found != version:
            return stands_for(f"{where} has sharegroup {found}, the driver has {version}: {advice}")
        for needed in ("numpy", "pyarrow"):
            if importlib.util.find_spec(needed) is None:
                raise ModuleNotFoundError(name=needed)
        kind = getattr(importlib.import_module(module), name)
    except ImportError as error:
        return stands_for(f"{error.name} is not installed in {where}: {advice}")
    return kind(*pickle.loads(packed))


by_value: Any = cloudpickle.register_pickle_by_value  # PySpark gives it no types
by_value(sys.modules[__name__])
