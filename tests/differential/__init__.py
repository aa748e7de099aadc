"""One random script of client operations, played against Apache Kafka and against us."""
