"""The Spark source: the driver acquires ranges, executors read exactly those."""
