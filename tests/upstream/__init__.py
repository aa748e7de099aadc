"""Tests of a Kafka cluster as the store."""
