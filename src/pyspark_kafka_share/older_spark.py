"""The format ``kafka-share`` in PySpark 4.0 and 4.1: a clear error, not DATA_SOURCE_NOT_FOUND."""

import pyspark
from pyspark.sql.datasource import DataSource


class NeedsNewerSpark(DataSource):
    """Every use of the format makes an object of this class first.

    Raises:
        ImportError: always; the sentence says what to install.
    """

    @classmethod
    def name(cls) -> str:
        """The name for ``format(…)``."""
        return "kafka-share"

    def __init__(self, options: dict[str, str]) -> None:
        raise ImportError(
            f"kafka-share needs PySpark 4.2 or newer, and this is PySpark {pyspark.__version__}: "
            "pip install 'pyspark>=4.2'"
        )
