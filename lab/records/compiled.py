"""Reads what the compiler made of the book's kernels, so that they need not be compiled again; see `tools.compiled`."""

from __future__ import annotations

from functools import cache

import msgspec

from sgemm_tutorial.compiler import Compiled

from ..paths import RESULTS

RECORD = RESULTS / "compiled.json"


@cache
def known() -> dict[str, Compiled]:
    """Return the recorded results by digest. For a kernel with two names, the first one counts: it has more results."""
    if not RECORD.exists():
        return {}
    recorded = msgspec.json.decode(RECORD.read_bytes(), type=dict[str, Compiled])
    return {of.digest: of for of in reversed(recorded.values())}
