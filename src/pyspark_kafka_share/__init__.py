"""Found by Spark itself: it imports every top-level package named ``pyspark_*`` and registers its
``DefaultSource``, so that ``spark.readStream.format("kafka-share")`` works with nothing to call.
"""

from sharegroup.spark.source import KafkaShareDataSource as DefaultSource

__all__ = ["DefaultSource"]
