"""Memory that tests have freed goes back to the system: else a process keeps what its largest ones once took."""

import contextlib
import ctypes
import gc

from lab.model import sass
from ptxsim import decode, ptx
from sgemm_tutorial import compiler

CACHES = (compiler._compile, sass.disassembled, ptx.parse, decode.decode)
"""The caches of kernels: many small objects, each of which holds on to much that is free round it."""


def give_back():
    """Forget kernels and ask glibc for all that is free; where there is another C library, it asks nobody.

    What is left stays, and is looked through no more: the tests themselves, and what they have reported.
    """
    for cached in CACHES:
        cached.cache_clear()
    gc.collect()
    gc.freeze()
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
