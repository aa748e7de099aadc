"""A Spark session whose Python processes are the program's own Python."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from sharegroup.model.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_session(builder: SparkSession.Builder | None = None) -> SparkSession:
    """The session of ``builder``, in which Spark finds the format ``kafka-share``::

        spark = spark_session(SparkSession.builder.appName("jobs").master("local[4]"))

    Spark starts its Python processes with the first ``python3`` on the ``PATH``. If the program is
    started as ``.venv/bin/python job.py``, from cron or an IDE, that Python has no ``sharegroup``.
    So this function names the program's own Python (in ``PYSPARK_PYTHON``, unless that is set). It
    also has Spark talk to its Python processes through Unix sockets, which is quicker, unless
    ``builder`` says otherwise.

    Args:
        builder: None: ``SparkSession.builder``.

    Raises:
        ConfigError: there is no PySpark.
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"a Spark session needs {error.name}, which {sys.executable} lacks: "
            f"{sys.executable} -m pip install 'sharegroup[spark]'"
        ) from None

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    made = SparkSession.builder if builder is None else builder
    sockets = "spark.python.unix.domain.socket.enabled"
    if sockets not in made._options:
        made.config(sockets, "true")
    return made.getOrCreate()
