"""The one walk over the records inside a batch: do they say the truth about themselves?

A batch's header and CRC prove nothing about what lies behind them: whoever made the batch made
both. So the broker walks every produced batch before it appends it, and the clients walk what any
broker sends before they decode it. The walk is C (``walk.c``, no Python in it, loaded by ctypes)
where the installation could compile it, and Python where not; both give the same verdict on any
bytes.

NumPy is not needed here.
"""
