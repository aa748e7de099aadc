"""A Kafka cluster as the store: its topics, and our state in topics of our own there."""
