"""Defines limits that hold on every GPU."""

WARP = 32
"""Threads of a warp."""
THREADS_MAX = 1024
"""Threads that a block may have."""
