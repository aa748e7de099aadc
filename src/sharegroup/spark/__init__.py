"""The Spark source and sink. The driver acquires ranges, executors read exactly these ranges, and
every record gets an answer."""

from sharegroup.spark.session import spark_session
from sharegroup.spark.sink.foreach_batch import acknowledge

__all__ = ["acknowledge", "spark_session"]
