"""Memory that ends where nobody may read on."""

from __future__ import annotations

import ctypes
import mmap


class guarded:  # noqa: N801  # a context manager, used like a function
    """``body`` just before a page without access, in memory that is given back."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        pages = -(-len(body) // mmap.PAGESIZE) + 1
        self._end = (pages - 1) * mmap.PAGESIZE
        self._memory = mmap.mmap(-1, pages * mmap.PAGESIZE)

    def __enter__(self) -> tuple[int, int, int]:
        start = self._end - len(self._body)
        self._memory[start : self._end] = self._body
        self._anchor = ctypes.c_char.from_buffer(self._memory)
        address = ctypes.addressof(self._anchor)
        assert not self._protect(address + self._end, 0)
        return address, start, self._end

    def __exit__(self, *_: object) -> None:
        address = ctypes.addressof(self._anchor)
        self._protect(address + self._end, mmap.PROT_READ | mmap.PROT_WRITE)
        del self._anchor
        self._memory.close()

    @staticmethod
    def _protect(address: int, mode: int) -> int:
        protect = ctypes.CDLL(None).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        return int(protect(address, mmap.PAGESIZE, mode))
