"""Checks a recorded history of a queue: ``sharegroup check HISTORY.jsonl``.

It imports nothing of the rest, so that it can judge it.
"""
