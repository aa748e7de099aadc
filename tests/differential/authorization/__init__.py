"""The authorisation of every API beside Apache Kafka."""
