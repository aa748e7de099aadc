"""Moves topics with their records, and groups with their progress, from one broker to another:
``sharegroup move``.
"""
