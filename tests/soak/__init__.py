"""A real broker for an hour, with members that come, go and die: does anything grow?"""
