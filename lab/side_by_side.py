"""Checks a kernel on several cases at once, a process each: the simulator uses one core."""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from typing import Any

from sgemm_tutorial.kernel import Kernel

from . import correctness
from .correctness import CheckResult

SOON = 1.0
"""Seconds in which cases are checked here, one by one: about what it takes to start other processes."""
WORTH = 4
"""The other cases are checked in other processes if they seem to take this many times `SOON`."""
MOST = 8  # processes, as each may take half a gigabyte


def checked(
    kernel: Kernel, listed: Sequence[dict[str, Any]], on_gpu: bool | None, budget: int
) -> Iterator[CheckResult]:
    """Yield what `correctness.checked` does, in the same order; on the simulator, several cases at once.

    Raises
    ------
    MemoryError
        A process was killed, as systems do that run out of memory.
    ArgumentError, CompileError, DeviceError, UnsupportedInstruction
        As for `correctness.check`.
    """
    began, rest = time.monotonic(), iter(listed)
    for done, result in enumerate(correctness.checked(kernel, rest, on_gpu, budget), 1):
        yield result
        if result.endless:
            return
        spent = time.monotonic() - began
        if not result.on_gpu and spent > SOON and spent * (len(listed) - done) > WORTH * SOON * done:
            break
    else:
        return
    waiting: list[Future[CheckResult]] = []
    try:
        for case in rest:
            waiting.append(_processes().submit(correctness.check, kernel, on_gpu=False, **case, budget=budget))
        for future in waiting:
            yield (result := future.result())
            if result.endless:
                return
    except BrokenProcessPool:
        _processes.cache_clear()
        raise MemoryError("a process that checked a case was killed, as happens where memory runs out") from None
    finally:
        for future in waiting:
            future.cancel()


@lru_cache(maxsize=1)
def _processes() -> ProcessPoolExecutor:
    """Return the processes, which leave Ctrl-C to this one: forks of one that imports what they need, where there are.

    A fork of this process would copy locks of its threads.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    context.set_forkserver_preload([correctness.__name__])
    return ProcessPoolExecutor(min(cores, MOST), context, signal.signal, (signal.SIGINT, signal.SIG_IGN))
