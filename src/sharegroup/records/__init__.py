"""The walk over the records inside a batch, which checks that they are well formed; and the codec,
which reads and writes them.

A batch's header and CRC prove nothing about its records: the same producer made all of them. So the
broker walks every produced batch before it appends it, and the clients check batches from any
broker as they decode them. The walk is C (``walk.c``, no Python in it, loaded by ctypes) where the
installation could compile it, otherwise Python; both give the same verdict on any bytes. So is the
codec (``record_codec.c``, without ``Python.h``).

NumPy is not needed here.
"""
