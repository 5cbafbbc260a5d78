"""What the compiler has made of the book's kernels once, so that it need not be asked again; see `tools.compiled`."""

from __future__ import annotations

from functools import cache

import msgspec

from sgemm_tutorial.compiler import Compiled

from ..paths import RESULTS

RECORD = RESULTS / "compiled.json"


@cache
def known() -> dict[str, Compiled]:
    """Return what is recorded, by digest; of a kernel with two names, under the first, by which most is known."""
    if not RECORD.exists():
        return {}
    recorded = msgspec.json.decode(RECORD.read_bytes(), type=dict[str, Compiled])
    return {of.digest: of for of in reversed(recorded.values())}
