"""``record_codec.c``, with the functions of Python that it calls.

Its table of functions stands in place of ``Python.h``: see there.
"""

from __future__ import annotations

import ctypes
import logging
import sys
from typing import Any, Final

from sharegroup.records.pure_codec import Codec

log = logging.getLogger("sharegroup.records")

_POINTER: Final = ctypes.c_void_p
OBJECTS: Final = (None, True, False, ValueError)
FUNCTIONS: Final = (
    "Py_IncRef", "Py_DecRef", "PyErr_Occurred", "PyErr_SetString", "PyErr_NoMemory",
    "PyLong_FromLongLong", "PyLong_AsLongLong", "PyBytes_FromStringAndSize",
    "PyBytes_AsStringAndSize", "PyUnicode_DecodeUTF8", "PyUnicode_AsUTF8AndSize", "PyTuple_New",
    "PyTuple_SetItem", "PyTuple_GetItem", "PyObject_GC_UnTrack", "PyList_New", "PyList_Size",
    "PyList_SetItem", "PyList_GetItem", "PyList_SetSlice", "PyObject_GetBuffer",
    "PyBuffer_Release", "PyCapsule_New", "PyCapsule_GetPointer", "PyCFunction_NewEx",
)  # fmt: skip
"""With ``OBJECTS`` before them, what the struct ``python`` in ``record_codec.c`` holds, in its
order."""


def codec_with(library: ctypes.CDLL | None) -> Codec | None:
    """The codec in ``library``. None: there is no library, or this interpreter is none that the
    library can call.

    The library relies on CPython's lock, which a free-threaded CPython (``t``) does not have.
    """
    free_threaded = "t" in getattr(sys, "abiflags", "")
    if library is None or sys.implementation.name != "cpython" or free_threaded:
        return None
    try:
        functions = [ctypes.cast(ctypes.pythonapi[name], _POINTER).value for name in FUNCTIONS]
    except AttributeError as error:  # an interpreter that exports less than the stable ABI
        log.warning("the compiled record codec cannot be used, using the one in Python: %s", error)
        return None
    table = (_POINTER * (len(OBJECTS) + len(functions)))(*map(id, OBJECTS), *functions)
    begin: Any = ctypes.PyDLL(library._name).sharegroup_record_codec
    begin.argtypes, begin.restype = [_POINTER, ctypes.c_int64], ctypes.py_object
    return Codec(*begin(table, len(table)))
