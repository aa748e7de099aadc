"""The walk over the records inside a batch, which checks that they are well formed.

A batch's header and CRC prove nothing about its records: the same producer made all of them. So the
broker walks every produced batch before it appends it, and the clients walk batches from any broker
before they decode them. The walk is C (``walk.c``, no Python in it, loaded by ctypes) where the
installation could compile it, otherwise Python; both give the same verdict on any bytes.

NumPy is not needed here.
"""
