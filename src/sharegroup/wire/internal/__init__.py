"""Kafka's record formats of the internal topics: ``__share_group_state`` and
``__consumer_offsets``."""
