"""One file per API: its request and response classes for all versions.

See ``wire.schema`` for how to read them.
"""
