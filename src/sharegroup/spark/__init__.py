"""The Spark source and sink: the driver acquires ranges, executors read exactly those, and every
record gets its answer."""

from sharegroup.spark.sink.foreach_batch import acknowledge

__all__ = ["acknowledge"]
