"""Reads the file beside a kernel, ``kernels/NN_name.toml``: facts that mirror the kernel's text.

These are variants that chapters compare, the gaps of its skeleton, and mutants that do no harm. The file is no part of
the kernel's digest, so a change to it voids no recording.
"""

from functools import cache

import msgspec

from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.paths import KERNELS


class Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The kernel with other template arguments, or with edits, or both.

    Attributes
    ----------
    group : str
        The group that it belongs to in `variants`.
    label : str
        What is changed, in a few words. ``{after}`` stands for the label of the variant that it starts from.
    after : sequence of str
        Labels of the variants before it that it starts from, one after the other; the kernel itself unless given.
    parameters : sequence of dict, optional
        Template arguments, one variant for each; those that it starts from unless given.
    edits : sequence of (str, str)
        Text of the source file or of its headers, and the text that replaces it.
    shared_bytes : int, optional
        Shared memory that the launch adds, where the edits change it.
    counted : bool
        Whether its accesses are counted with Nsight Compute; see `variants.COUNTED`.
    """

    group: str
    label: str = ""
    after: tuple[str, ...] = ()
    parameters: tuple[dict[str, int | str], ...] | None = None
    edits: tuple[tuple[str, str], ...] = ()
    shared_bytes: int | None = None
    counted: bool = False


class Gap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lines of a kernel's file that its skeleton leaves out.

    Attributes
    ----------
    first, last : str
        Text of the first of these lines and of the last one: the next lines that hold it, after the gap before.
    put : str
        The lines that stand there instead, indented like the first one. They compile, and the result is wrong.
    """

    first: str
    last: str
    put: str


class Equivalent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Mutants that do nothing wrong, though their PTX is another: their keys, and the reason."""

    why: str
    mutants: tuple[str, ...]


class Beside(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file beside a kernel."""

    variant: tuple[Variant, ...] = ()
    gap: tuple[Gap, ...] = ()
    equivalent: tuple[Equivalent, ...] = ()


def names() -> list[str]:
    """Return the full names of the kernels that have such a file, in the order of the book."""
    return sorted(path.stem for path in KERNELS.glob("*.toml"))


@cache
def beside(name: str) -> Beside:
    """Return the facts beside a kernel of the book, by its full name; none if there is no such file.

    Raises
    ------
    ArgumentError
        The file is malformed; the message names the field.
    """
    path = KERNELS / f"{name}.toml"
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Beside)
    except FileNotFoundError:
        return Beside()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ArgumentError(str(path), f"a malformed file ({error})", "variants, gaps and equivalent mutants") from None
