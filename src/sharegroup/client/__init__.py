"""Share consumer, producer and admin client."""
