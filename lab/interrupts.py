"""Ctrl-C before the command line has begun, while modules are imported: it ends the program as it does later.

The imports take seconds. A KeyboardInterrupt among them would end in a traceback, or in what a library makes of it.
Other programs that import the package are left alone.
"""

import os
import signal
import sys

BEFORE = signal.getsignal(signal.SIGINT)
"""The handler of Ctrl-C until then. In the background, for example, it ignores Ctrl-C."""

if BEFORE is signal.default_int_handler and (
    (sys.argv[0] == "-m" and "lab" in sys.orig_argv) or os.path.basename(sys.argv[0]).startswith("sgemm-tutorial")
):
    signal.signal(signal.SIGINT, lambda *_: os.write(2, b"interrupted\n") and os._exit(130))


def over() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again, which commands handle."""
    signal.signal(signal.SIGINT, BEFORE)
