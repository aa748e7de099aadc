"""The consumer: a member of a consumer group, or a reader of chosen partitions."""
