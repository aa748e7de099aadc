"""The admin client: topics, settings, groups, and the states of a queue's records."""
