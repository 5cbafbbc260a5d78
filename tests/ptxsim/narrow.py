"""NumPy as on a machine whose default integer has 32 bits: whatever does not name its type is int32."""

import contextlib
import sys
from types import ModuleType

import numpy as np

COUNTING = ("flatnonzero", "argwhere", "argsort", "searchsorted", "argmax", "argmin", "intersect1d")
"""Functions that return places or counts, which are as wide as the default."""


def narrowed(value):
    """Return integers that are as wide as this machine's default as those of the other machine."""
    if isinstance(value, tuple):
        return tuple(map(narrowed, value))
    return value.astype(np.int32) if getattr(value, "dtype", None) == np.int64 else value


def _given(values):
    """Whether something names a type: an array or a scalar of NumPy's among the values, however deep."""
    return any(isinstance(v, np.ndarray | np.generic) or (isinstance(v, list | tuple) and _given(v)) for v in values)


class Narrow(ModuleType):
    """Stands for the module `numpy`."""

    intp = np.int32

    def __getattr__(self, name):
        found = getattr(np, name)
        if name in COUNTING:
            return lambda *values, **more: narrowed(found(*values, **more))
        if name == "nonzero":
            return lambda value: tuple(map(narrowed, found(value)))
        return found

    @staticmethod
    def arange(*values, dtype=None):
        *values, dtype = values if len(values) > 3 else (*values, dtype)
        return np.arange(*values, dtype=dtype or (None if _given(values) else np.int32))

    @staticmethod
    def array(value, dtype=None):
        made = np.array(value, dtype)
        return made if dtype is not None or _given([value]) else narrowed(made)

    @staticmethod
    def full(shape, value, dtype=None):
        made = np.full(shape, value, dtype)
        return made if dtype is not None or _given([value]) else narrowed(made)

    @staticmethod
    def where(condition, *values):
        made = np.where(condition, *values)
        return made if _given(values) else narrowed(made)

    @staticmethod
    def unique(value, return_index=False, return_inverse=False):
        made = np.unique(value, return_index, return_inverse)
        return (made[0], *map(narrowed, made[1:])) if isinstance(made, tuple) else made

    @staticmethod
    def bincount(value, *others, **more):
        assert np.can_cast(value.dtype, np.int32), f"bincount takes no {value.dtype} there"
        return narrowed(np.bincount(value, *others, **more))

    @staticmethod
    def cumsum(value, **more):
        made = np.cumsum(value, **more)
        return made if "out" in more or value.dtype == np.int64 else narrowed(made)


@contextlib.contextmanager
def default_of_32_bits():
    """Let all modules of ptxsim that are loaded use that NumPy for a while."""
    modules = [module for name, module in sys.modules.items() if name.startswith("ptxsim.")]
    using = [module for module in modules if vars(module).get("np") is np]
    assert len(using) > 25
    for module in using:
        module.np = Narrow("numpy")
    try:
        yield
    finally:
        for module in using:
            module.np = np
