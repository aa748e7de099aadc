"""Records that are rejected while the broker is killed and their dead-letter topic refuses letters.

``round.py`` plays: our broker or Apache Kafka, four members of two clients, kills, a time without
letters. ``rules.py`` judges by what the members wrote down, by the input and by the letters, read
with librdkafka. ``python scripts/dead_letter_kills.py`` plays it in any size.
"""
