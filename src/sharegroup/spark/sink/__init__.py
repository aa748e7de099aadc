"""Answers for records, and records for a topic, from the rows of a query."""
