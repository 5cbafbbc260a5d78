"""What holds on every GPU that PTX is made for."""

WARP = 32
"""Threads of a warp."""
THREADS_MAX = 1024
"""Threads that a block may have."""
