"""Does arithmetic in every rounding mode, with flushed subnormals and saturation, and the approximate functions.

An exact result is rounded to nearest first. In another mode, the sign of that rounding's error says whether to step
to the neighbour. The sign is that of a float64 for operands of float32, which is right as each step is exact or keeps
the sign; for operands of float64 it comes from exact fractions. Where PTX promises only a bound, as in ``.approx``,
the result is that of a float64 function, rounded: it is within the bound, but need not have the hardware's last bits.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from .fma import canonical, fma32, fma64, two_sum

Function = Callable[..., np.ndarray]
MODES = {"rn": 0, "rz": 0, "rm": -1, "rp": 1}
SMALLEST = {4: 2.0**-126, 8: 2.0**-1022}
"""The smallest normal number by the bytes of its type."""

NEAREST: dict[str, Function] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "fma": lambda a, b, c: (fma32 if a.dtype == np.float32 else fma64)(a, b, c),
    "div": np.divide,
    "rcp": lambda a: np.divide(a.dtype.type(1), a),
    "sqrt": np.sqrt,
}


def _rest(x: Any, y: Any, q: Any) -> Any:
    total, error = two_sum(x, y)
    return (total - q) + error


RESTS: dict[str, Callable[..., Any]] = {
    "add": lambda q, a, b: _rest(a, b, q),
    "sub": lambda q, a, b: _rest(a, -b, q),
    "mul": lambda q, a, b: a * b - q,
    "fma": lambda q, a, b, c: _rest(a * b, c, q),
    "div": lambda q, a, b: (a - q * b) * ((b > 0) * 2 - 1),
    "rcp": lambda q, a: (1 - q * a) * ((a > 0) * 2 - 1),
    "sqrt": lambda q, a: a - q * q,
}
"""Functions of exact operands and `q` that return what rounding to `q` has lost, or a number of that sign."""


def rounded(name: str, mode: str) -> Function:
    """Return an operation of `NEAREST` in a rounding mode."""
    if mode == "rn":
        return lambda *operands: (
            canonical(NEAREST[name](*operands)) if operands[0].itemsize == 4 else NEAREST[name](*operands)
        )

    def function(*operands: np.ndarray) -> np.ndarray:
        operands = np.broadcast_arrays(*operands)
        nearest = NEAREST[name](*operands)
        if nearest.dtype == np.float32:
            rest = RESTS[name](nearest.astype(np.float64), *(of.astype(np.float64) for of in operands))
        else:
            rest = np.zeros(nearest.shape)
            usual = np.logical_and.reduce([np.isfinite(of) for of in operands]) & ~np.isnan(nearest)
            usual &= (name not in ("div", "rcp")) | (operands[-1] != 0)
            for i in np.flatnonzero(usual):
                q, *exact = (Fraction(of[i]) if np.isfinite(of[i]) else None for of in (nearest, *operands))
                rest[i] = -nearest[i] if q is None else np.sign(RESTS[name](q, *exact))
        result = stepped(nearest, rest, mode)
        if mode == "rm" and name in ("add", "sub", "fma"):  # where terms cancel, their sum is -0
            addend = -operands[1] if name == "sub" else operands[-1]
            other = operands[0] * operands[1] if name == "fma" else operands[0]
            minus = (result == 0) & (rest == 0) & (np.signbit(addend) | np.signbit(other))
            result = np.where(minus, -np.abs(result), result)
        return canonical(result) if result.dtype == np.float32 else result

    return function


def stepped(nearest: np.ndarray, rest: np.ndarray, mode: str) -> np.ndarray:
    """Return a result, rounded to nearest, as another mode rounds it; `rest` has the sign of what was lost."""
    towards = nearest.dtype.type(np.inf) * MODES[mode] if MODES[mode] else nearest.dtype.type(0)
    wrong = rest * MODES[mode] > 0 if MODES[mode] else rest * np.sign(nearest) < 0
    return np.where(wrong, np.nextafter(nearest, towards), nearest)


def flushed(a: np.ndarray) -> np.ndarray:
    """Return floats with every subnormal replaced by a zero of its sign."""
    small = np.abs(a) < SMALLEST.get(a.itemsize, 0)
    return np.where(small, np.copysign(a.dtype.type(0), a), a) if a.dtype.kind == "f" else a


def saturated(a: np.ndarray) -> np.ndarray:
    """Return floats limited to 0 to 1; a NaN becomes 0."""
    return np.where(a > 0, np.minimum(a, a.dtype.type(1)), a.dtype.type(0))


def modified(function: Function, ftz: bool = False, sat: bool = False) -> Function:
    """Return an operation that flushes its subnormal operands and results, or saturates its results, or both."""

    def changed(*operands: np.ndarray) -> np.ndarray:
        result = function(*(map(flushed, operands) if ftz else operands))
        result = flushed(result) if ftz else result
        return saturated(result) if sat else result

    return changed if ftz or sat else function


def least(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the smaller float: -0 is smaller than +0, and a number stands before a NaN."""
    return np.where(a == b, np.where(np.signbit(a), a, b), np.fmin(a, b))


def most(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the larger float, by the same rules."""
    return np.where(a == b, np.where(np.signbit(a), b, a), np.fmax(a, b))


def of_nan(function: Function) -> Function:
    """Return `least` or `most` with a NaN where an operand is one."""
    return lambda a, b: np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), function(a, b))


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a/b as ``div.approx`` does, which makes 0 of divisors above 2**126."""
    return np.where((np.abs(b) > 2.0**126) & np.isfinite(b), a * np.float64(0), a / b)


APPROXIMATE: dict[str, Function] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sqrt": np.sqrt,
    "rcp": lambda a: 1 / a,
    "div": _quotient,
}
"""The functions of which PTX promises a bound, in float64."""


def approximate(name: str, full: bool = False) -> Function:
    """Return an approximate function of float32; of a quotient, the one for all divisors if `full`."""
    function = np.divide if full else APPROXIMATE[name]
    return lambda *operands: canonical(function(*(of.astype(np.float64) for of in operands)).astype(np.float32))


def coarse(name: str) -> Function:
    """Return ``rcp.approx.ftz.f64`` or ``rsqrt.approx.f64``, whose results have no lower half."""
    return lambda a: (APPROXIMATE[name](a).view(np.uint64) & np.uint64(0xFFFF_FFFF_0000_0000)).view(np.float64)
