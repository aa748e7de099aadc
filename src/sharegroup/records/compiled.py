"""The walk of ``walk.c`` through ctypes: there when the installation compiled it
(``hatch_build.py``) and it loads here.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import weakref
from array import array
from collections.abc import Callable, Sequence
from mmap import mmap
from pathlib import Path
from typing import Any, Final, cast

from sharegroup.records import pure
from sharegroup.records.walk_result import Verdict, Walked

log = logging.getLogger("sharegroup.records")

LIBRARY: Final = Path(__file__).with_name("libwalk.so")
"""Where the build puts the library, on every system."""
PURE_VARIABLE: Final = "SHAREGROUP_PURE"
"""If this environment variable is 1, the library is not used."""

_INT64: Final = ctypes.c_int64
_POINTER: Final = ctypes.c_void_p
_FACTS: Final = _INT64 * 5
_WALK_ARGUMENTS: Final[list[Any]] = [
    _POINTER, *[_INT64] * 4, ctypes.c_int32, _INT64, _POINTER, _POINTER, _POINTER, _POINTER
]  # fmt: skip
_VERDICTS: Final = tuple(Verdict)
HELD_BYTES_MAX: Final = 64 * 1024
"""Up to this many bytes, some ten microseconds, the walk keeps the GIL: to release it and get it
back while another thread finishes an fsync costs more.
"""

Buffer = bytes | bytearray | memoryview


def load(path: Path = LIBRARY) -> ctypes.CDLL | None:
    """The library; None when it is not wanted, not there, or of another version.

    A library that is there but does not load is logged once: the installation is broken.
    """
    if os.environ.get(PURE_VARIABLE) == "1" or not path.exists():
        return None
    try:
        library = ctypes.CDLL(str(path))
        version = library.sharegroup_walk_version()
    except (OSError, AttributeError) as error:
        log.warning("the compiled walk cannot be loaded, using the one in Python: %s", error)
        return None
    if version != pure.VERSION:
        log.warning(
            "the compiled walk has another version, using the one in Python: reinstall sharegroup"
        )
        return None
    library.sharegroup_walk.argtypes = _WALK_ARGUMENTS
    library.sharegroup_walk_batches.argtypes = [_POINTER, _INT64, *[_POINTER] * 5]
    library.sharegroup_walk_batches.restype = _INT64
    library.sharegroup_hash.argtypes = [_POINTER, _POINTER, _INT64, _POINTER]
    library.sharegroup_keys_move.argtypes = [_POINTER, _INT64, _POINTER, _INT64]
    library.sharegroup_keys_note.argtypes = [_POINTER, _INT64, *[_POINTER] * 2, *[_INT64] * 5]
    library.sharegroup_keys_note.restype = _INT64
    library.sharegroup_key_hashes.argtypes = [_POINTER, *[_INT64] * 5, *[_POINTER] * 3]
    library.sharegroup_tenant_hashes.argtypes = [_POINTER, *[_INT64] * 5, *[_POINTER] * 3]
    library.sharegroup_key_choose.argtypes = [
        *[_INT64] * 2, *[_POINTER] * 3, _INT64, *[_POINTER] * 2
    ]  # fmt: skip
    library.sharegroup_key_choose.restype = _INT64
    library.sharegroup_key_copy.argtypes = [_POINTER, *[_INT64] * 2, *[_POINTER] * 3]
    library.sharegroup_keys_filter.argtypes = [
        _POINTER, _INT64, *[_POINTER] * 2, *[_INT64] * 6, ctypes.c_int32, *[_INT64] * 2,
        *[_POINTER] * 2,
    ]  # fmt: skip
    _declare_ids(library)
    return library


def _declare_ids(library: Any) -> None:
    """The functions of ``message_ids.c``."""
    library.sharegroup_ids_find.argtypes = [_POINTER, *[_INT64] * 4, *[_POINTER] * 5]
    library.sharegroup_ids_find.restype = _INT64
    library.sharegroup_ids_expire.argtypes = [_POINTER, *[_INT64] * 2]
    library.sharegroup_ids_decide.argtypes = [*[_POINTER] * 4, *[_INT64] * 5, _POINTER]
    library.sharegroup_ids_decide.restype = _INT64
    library.sharegroup_ids_look.argtypes = [*[_POINTER] * 3, *[_INT64] * 2, _POINTER]
    library.sharegroup_ids_note.argtypes = [*[_POINTER] * 4, *[_INT64] * 5]
    library.sharegroup_ids_undo.argtypes = [_POINTER, _INT64]
    library.sharegroup_ids_settle.argtypes = [_POINTER, *[_INT64] * 2, ctypes.c_int32]
    library.sharegroup_ids_export.argtypes = [_POINTER, *[_INT64] * 3, _POINTER]
    library.sharegroup_ids_export.restype = _INT64
    library.sharegroup_ids_import.argtypes = [*[_POINTER] * 2, *[_INT64] * 4]
    library.sharegroup_ids_move.argtypes = [*[_POINTER] * 2, _INT64]


def sync_with(library: ctypes.CDLL | None) -> Callable[[int], int] | None:
    """A function that syncs a descriptor (``fdatasync``) and returns the nanoseconds it took,
    without the wait for the interpreter's lock, or -errno. None: the library has no such function.
    """
    return _function(library, "sharegroup_sync", [ctypes.c_int32])


def expired_with(library: ctypes.CDLL | None) -> Callable[..., int] | None:
    """``sharegroup_expired`` of ``expiry.c``. None: there is no library, or it is of an earlier
    build and has no such function."""
    types = [_POINTER, *[_INT64] * 6, _POINTER, *[_INT64] * 2, *[_POINTER] * 2]
    return _function(library, "sharegroup_expired", types)


def not_due_with(library: ctypes.CDLL | None) -> Callable[..., int] | None:
    """``sharegroup_not_due`` of ``expiry.c``. None: as :func:`expired_with`."""
    types = [_POINTER, *[_INT64] * 4, _POINTER, *[_INT64] * 4, *[_POINTER] * 2]
    return _function(library, "sharegroup_not_due", types)


def header_tenants_with(library: ctypes.CDLL | None) -> Callable[..., int] | None:
    """``sharegroup_header_tenants`` of ``key_hashes.c``. None: as :func:`expired_with`."""
    types = [_POINTER, *[_INT64] * 5, _POINTER, _INT64, *[_POINTER] * 2]
    return _function(library, "sharegroup_header_tenants", types)


def priorities_with(library: ctypes.CDLL | None) -> Callable[..., int] | None:
    """``sharegroup_priorities`` of ``key_hashes.c``. None: as :func:`expired_with`."""
    types = [_POINTER, *[_INT64] * 4, _POINTER, _INT64, *[_POINTER] * 3]
    return _function(library, "sharegroup_priorities", types)


def _function(
    library: ctypes.CDLL | None, name: str, types: Sequence[Any]
) -> Callable[..., int] | None:
    """A function with these arguments that returns a number of 64 bits. None: there is no library,
    or it is another system's or of an earlier build and has no such function."""
    function: Any = getattr(library, name, None)
    if function is None:
        return None
    function.argtypes = types
    function.restype = _INT64
    return cast(Callable[..., int], function)


class NativeSyncs:
    """Threads that sync descriptors and know nothing of the interpreter (``syncs.c``).

    Raises:
        OSError: no thread could be started.
    """

    COLLECTED_MAX: Final = 64

    def __init__(self, library: ctypes.CDLL, threads: int) -> None:
        held = ctypes.PyDLL(library._name)  # these calls are short: the lock is kept
        start = held.sharegroup_syncs_start
        start.argtypes, start.restype = [ctypes.c_int32, _POINTER], _POINTER
        self._submit = held.sharegroup_syncs_submit
        self._submit.argtypes = [_POINTER, ctypes.c_int32, _INT64]
        self._collect = held.sharegroup_syncs_collect
        self._collect.argtypes = [_POINTER, _POINTER, _POINTER, ctypes.c_int32]
        end = library.sharegroup_syncs_end
        end.argtypes, end.restype = [_POINTER], None
        signal = ctypes.c_int32()
        self._of: int | None = start(threads, ctypes.addressof(signal))
        if self._of is None:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        # Who drops this without a call of end() leaves no threads and no descriptor behind. When
        # the process ends, they end with it: a sync that hangs must not hold it up.
        self._end = weakref.finalize(self, end, self._of)
        self._end.atexit = False
        self.signal_fd = signal.value
        """Can be read when a sync is done."""
        self._ids = (_INT64 * self.COLLECTED_MAX)()
        self._results = (_INT64 * self.COLLECTED_MAX)()

    def submit(self, fd: int, number: int) -> None:
        """Begin to sync a descriptor, which the caller keeps open until the sync is done.

        Raises:
            OSError: the sync was not begun.
        """
        error = self._submit(self._of, fd, number)
        if error:
            raise OSError(-error, os.strerror(-error))

    def collect(self) -> list[tuple[int, int]]:
        """Some of the syncs that are done: number, and nanoseconds or -errno."""
        found = self._collect(self._of, self._ids, self._results, self.COLLECTED_MAX)
        return list(zip(self._ids[:found], self._results[:found], strict=True))

    def end(self) -> None:
        """Do the syncs that wait, and end the threads; a second call does nothing."""
        self._of = None
        self._end()


def has_native_syncs(library: ctypes.CDLL | None) -> bool:
    """Whether the library has threads for :class:`NativeSyncs`: a library of another system, or of
    an earlier build, has none."""
    return hasattr(library, "sharegroup_syncs_start")


def walk_with(library: ctypes.CDLL) -> Callable[..., Walked]:
    """A function that walks by ``library``, with the arguments and the result of
    :func:`sharegroup.records.pure.walk`."""
    freely: Any = library.sharegroup_walk
    held: Any = ctypes.PyDLL(library._name).sharegroup_walk
    held.argtypes = _WALK_ARGUMENTS

    def walk(
        data: Buffer,
        start: int,
        end: int,
        count: int,
        last_delta: int,
        *,
        dense: bool,
        base_timestamp: int,
    ) -> Walked:
        if not 0 <= start <= end <= len(data):
            raise ValueError(f"bytes {start} to {end} of {len(data)}")
        facts = _FACTS()
        call = held if end - start <= HELD_BYTES_MAX else freely
        verdict = call(
            address(data), start, end, count, last_delta, dense, base_timestamp, facts, None, None,
            None,
        )  # fmt: skip
        records, position, earliest, latest, keyless = facts
        return Walked(_VERDICTS[verdict], records, position, earliest, latest, keyless)

    return walk


def address(data: Buffer | mmap) -> Any:
    """A pointer to the first byte, as ctypes takes it. A read-only view is copied, because ctypes
    cannot point to it."""
    if isinstance(data, bytes):
        return data
    if not len(data) or (isinstance(data, memoryview) and data.readonly):
        return bytes(data)
    return ctypes.byref(ctypes.c_char.from_buffer(data))


def pointer(numbers: array[int]) -> Any:
    """Where the numbers stand, as ctypes takes it."""
    return _POINTER(numbers.buffer_info()[0])
