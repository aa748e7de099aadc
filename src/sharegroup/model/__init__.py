"""Words shared by all layers: ids, offset ranges, errors, limits, the Log and Environment
protocols.

Nothing here does I/O, reads a clock or imports another package of ours.
"""
