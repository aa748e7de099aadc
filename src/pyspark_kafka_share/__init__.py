"""Registers the format. Spark imports every top-level package named ``pyspark_*`` and registers its
``DefaultSource``, so ``spark.readStream.format("kafka-share")`` works without a call.
"""

import sys
from typing import Final

try:
    import pyspark
    from pyspark.sql.datasource import DataSource
except ModuleNotFoundError as error:
    raise ImportError(
        f"kafka-share needs {error.name}, which {sys.executable} lacks: "
        f"{sys.executable} -m pip install 'sharegroup[spark]'"
    ) from None

__all__ = ["DefaultSource"]

_PYSPARK_MIN: Final = (4, 2)

DefaultSource: type[DataSource]

if tuple(map(int, pyspark.__version__.split(".")[:2])) >= _PYSPARK_MIN:
    from sharegroup.spark.data_source import KafkaShareDataSource

    DefaultSource = KafkaShareDataSource
else:  # this PySpark lacks the classes that we import
    from pyspark_kafka_share.older_spark import NeedsNewerSpark

    DefaultSource = NeedsNewerSpark
