"""Checks that all lanes of a warp take part in the instructions that PTX has them execute together.

Two things are checked. All lanes of the warp must be there; and for ``.aligned`` forms, such as those of ``mma``,
``ldmatrix``, ``wgmma`` and ``barrier.cluster``, they must also be converged. PTX does not promise that lanes which
parted come together again before a ``bar.warp.sync`` or another barrier. So a warp has parted here when only some of
its lanes run an iteration of a loop, or wait for an mbarrier, even if this simulator would bring them together. An
``if`` whose arms have no loop and no wait is not reported: compilers join the lanes right behind it, and every kernel
that elects a lane relies on it.

Semantics: NVIDIA, "Parallel Thread Execution ISA", "mma", "ldmatrix", "wgmma", "setmaxnreg", "barrier.cluster".
"""

from typing import Any

import numpy as np

from .execution import Step
from .lanes import Lanes, Threads
from .limits import WARP
from .memory import refuse

TOGETHER = -1  # in the place of a reason


class Convergence:
    """Remembers which warps of a batch have parted, and why.

    Parameters
    ----------
    threads : Threads

    Attributes
    ----------
    why : array of int64
        For each lane, the index in `reasons` of what it has done without all of its warp, or `TOGETHER`.
    reasons : list of str
    """

    def __init__(self, threads: Threads) -> None:
        self.threads = threads
        self.why = np.full(threads.size, TOGETHER, np.int64)
        self.reasons: list[str] = []

    def join(self, lanes: Lanes) -> None:
        """Note that the active lanes' warps are whole and converged."""
        if self.reasons:
            self.why[self.threads.places(lanes)] = TOGETHER

    def alone(self, lanes: np.ndarray, does: str) -> None:
        """Note which of the lanes do something without all of their warps; `does` says what, for messages."""
        lacking = lanes[self.threads.lacking(lanes)]
        if len(lacking):
            if does not in self.reasons:
                self.reasons.append(does)
            self.why[lacking] = self.reasons.index(does)

    def require_all(self, lanes: np.ndarray, what: str) -> None:
        """Raise Violation unless the lanes come with all the threads that their warps have, and converged."""
        refuse(
            "divergence",
            self.threads.lacking(lanes),
            f"comes to {what} without all of its warp, though that is to come as one",
        )
        self.require(lanes, what)

    def require(self, lanes: Lanes, what: str) -> None:
        """Raise Violation where a warp of the active lanes has parted and nothing has brought it together since."""
        if not self.reasons:
            return
        why = self.threads.pick(self.why, lanes)
        refuse(
            "divergence",
            why != TOGETHER,
            lambda lane: (
                f"{self.reasons[why[lane]]} without all of its warp, and nothing has brought them together since, "
                f"though a warp is to come to {what} as one"
            ),
        )


def of_whole_warps(act: Step, name: str) -> Step:
    """Return the step that first requires whole and converged warps; `name` is the instruction's, for messages."""

    def execute(batch: Any, lanes: Lanes) -> None:
        batch.convergence.require(lanes, name)
        threads = batch.threads
        if not threads.whole(lanes):
            warp = (threads.pick(threads.slot, lanes) // WARP).astype(np.intp)
            refuse(
                "divergence",
                np.bincount(warp)[warp] < WARP,
                "does without all of its warp what 32 lanes must do together",
            )
        batch.join(lanes)
        act(batch, lanes)

    return execute


def of_warps(batch: Any, lanes: Lanes, values: np.ndarray, detail: str) -> np.ndarray:
    """Return one value per warp; raise Violation where a lane's differs from the one of its warp's first lane."""
    rows = batch.threads.spread(values, lanes).reshape(-1, WARP)
    refuse("divergence", (rows != rows[:, :1]).reshape(-1), detail)
    return rows[:, 0]
