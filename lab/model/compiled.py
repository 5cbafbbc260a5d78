"""Recorded answers of the compiler on the book's kernels, so that it need not be asked again; see `tools.compiled`."""

import hashlib
import re
from dataclasses import dataclass
from functools import cache, lru_cache

import msgspec

from ptxsim import cuda_source, nvrtc
from sgemm_tutorial import compiler
from sgemm_tutorial.compiler import ARCHITECTURE, Instance

from ..paths import RESULTS

RECORD = RESULTS / "compiled.json"


@dataclass(frozen=True)
class Resources:
    """The resources of a kernel, as ptxas reports them.

    Attributes
    ----------
    registers : int
        Per thread, 32 bits each.
    shared_bytes : int
        Shared memory per block, with what a launch adds.
    stack_bytes : int
        Local memory per thread, spills included.
    spill_store_bytes, spill_load_bytes : int
        What the compiler's spill instructions move per thread, each counted once.
    constant_bytes : int or None
        Constant memory, kernel arguments included; None where ptxas does not tell (sm_90 and later).
    barriers : int
        Hardware barriers per block, of 16.
    """

    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    constant_bytes: int | None
    barriers: int


@dataclass(frozen=True)
class Compiled:
    """The compiler's recorded answer on one kernel.

    Attributes
    ----------
    digest : str
        Of what it was made from and by which compiler, as `digest` gives it.
    used : Resources
    mix : dict, optional
        Its instructions by class, as `sass_mix` returns them, where chapters ask for that.
    note : str, optional
        Where its hot loop is, as `sass_table` says it, where chapters show that.
    """

    digest: str
    used: Resources
    mix: dict[str, dict[str, int]] | None = None
    note: str | None = None


@cache
def known() -> dict[str, Compiled]:
    """Return what is recorded, by digest; of a kernel with two names, under the first, by which most is known."""
    if not RECORD.exists():
        return {}
    recorded = msgspec.json.decode(RECORD.read_bytes(), type=dict[str, Compiled])
    return {of.digest: of for of in reversed(recorded.values())}


def digest(instance: Instance, architecture: str = ARCHITECTURE) -> str:
    """Return a digest that identifies machine code before it is made, 12 digits of a SHA-256.

    It covers all that `build` passes to the compiler except comments, the compiler itself, and the limits that the
    answer is checked for. Line numbers count, as the answer names them; the text of comments does not.

    Raises
    ------
    ArgumentError
        As `compiler.build` does of architectures.
    """
    files = tuple((name, _code(text)) for name, text in instance.files)
    asked = files, instance.expression, instance.threads, instance.dynamic_shared_bytes
    made_of = (*asked, compiler.target(instance, architecture), nvrtc.OPTIONS, nvrtc.toolchain())
    return hashlib.sha256(repr(made_of).encode()).hexdigest()[:12]


@lru_cache(maxsize=64)
def _code(text: str) -> str:
    """Return a source without the text of its comments."""
    return re.sub(r" +$", "", cuda_source.blanked(text, strings=False), flags=re.M)


def recorded(instance: Instance, architecture: str = ARCHITECTURE) -> Compiled | None:
    """Return what is recorded of an instance, if it was made of the same code and by this compiler.

    Raises
    ------
    ArgumentError
        As `compiler.build` does of architectures.
    """
    return known().get(digest(instance, architecture))
