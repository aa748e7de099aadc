"""Found by Spark itself: it imports every top-level package named ``pyspark_*`` and registers its
``DefaultSource``, so that ``spark.readStream.format("kafka-share")`` works with nothing to call.
"""

from typing import Final

import pyspark
from pyspark.sql.datasource import DataSource

__all__ = ["DefaultSource"]

_PYSPARK_MIN: Final = (4, 2)

DefaultSource: type[DataSource]

if tuple(map(int, pyspark.__version__.split(".")[:2])) >= _PYSPARK_MIN:
    from sharegroup.spark.data_source import KafkaShareDataSource

    DefaultSource = KafkaShareDataSource
else:  # what we import is not there yet
    from pyspark_kafka_share.older_spark import NeedsNewerSpark

    DefaultSource = NeedsNewerSpark
