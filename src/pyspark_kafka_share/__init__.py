"""Found by Spark under this name: the data source ``kafka-share``."""
