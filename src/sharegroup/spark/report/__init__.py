"""A query's picture, from its checkpoint alone: no Spark is needed to read one."""
