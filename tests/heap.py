"""Memory that tests have freed goes back to the system: else a process keeps what its largest ones once took."""

import contextlib
import ctypes
import gc
import os
from pathlib import Path

from sgemm_tutorial import compiler
from sgemm_tutorial.model import sass
from sgemm_tutorial.simulator import decode, ptx

ENOUGH = 400 << 20
"""Bytes that a process may hold before it is worth the while to look for what is free: half as much again as all the
tests take before any has run."""

CACHES = (compiler._compile, sass.disassembled, ptx.parse, decode.decode)
"""What is kept of kernels: many small objects, each of which holds on to much that is free round it."""


def resident():
    """Return the bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGESIZE")


def give_back():
    """Forget kernels and ask glibc for all that is free; where there is another C library, it asks nobody."""
    for cached in CACHES:
        cached.cache_clear()
    gc.collect()
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
