"""Memory that has been freed goes back to the system: else a process keeps what its longest test once took."""

import contextlib
import ctypes


def give_back():
    """Ask glibc for it; where there is another C library, nothing happens."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
