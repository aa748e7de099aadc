"""The Spark source and sink. The driver acquires ranges, executors read exactly these ranges, and
every record gets an answer."""

import logging

from sharegroup.model.printable import EscapedMessages
from sharegroup.spark.letters.redrive import redrive
from sharegroup.spark.progress_listener import progress_listener
from sharegroup.spark.session import spark_session
from sharegroup.spark.sink.foreach_batch import acknowledge

logging.getLogger("sharegroup.spark").addFilter(EscapedMessages())

__all__ = ["acknowledge", "progress_listener", "redrive", "spark_session"]
