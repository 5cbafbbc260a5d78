"""Computes fused multiply-adds of whole NumPy arrays, which NumPy lacks, rounded once as the hardware rounds them.

Both functions compute the sum exactly, as two numbers or as one of more bits, and then round it. They use error-free
transformations: Knuth's TwoSum and Dekker's product, with the factors split as Veltkamp does; J.-M. Muller et al.,
"Handbook of Floating-Point Arithmetic", 2nd ed., Birkhäuser 2018, chapter 4. Rounding to odd, which a second rounding
cannot spoil, is S. Boldo and G. Melquiond's: "Emulation of a FMA and correctly rounded sums: proved algorithms using
rounding to odd", IEEE Transactions on Computers 57(4), 2008.
"""

import math
from fractions import Fraction

import numpy as np

NAN = np.uint32(0x7FFFFFFF).view(np.float32)  # the only NaN that the GPU's float32 arithmetic returns
BELOW, TIE = np.uint64(0x1FFFFFFF), np.uint64(0x10000000)
"""The bits of a float64 that a float32 lacks, and what they are halfway between two of those."""
SPLIT = 2.0**27 + 1  # cuts a float64 into halves of 26 bits
LARGE, SMALL = 2.0**970, 2.0**-960
"""Between these sizes nothing in `fma64` overflows or underflows, neither the halves nor the product's error."""


def fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return a·b + c in float32, rounded once, bit for bit as the hardware does.

    The product of two float32 is exact in float64. Their sum with c is rounded to 53 bits and then to 24; that
    differs from rounding once only where the first rounding lands on a tie of the second, or where the result
    is subnormal and has fewer bits. There the sum is made again, rounded to odd.
    """
    product = np.multiply(a, b, dtype=np.float64)
    total = product + c
    result = total.astype(np.float32)
    spare = product.view(np.uint64) if product.shape == total.shape else None  # quicker than memory not yet in a cache
    doubtful = np.bitwise_and(total.view(np.uint64), BELOW, out=spare) == TIE
    usual = np.abs(result).min(initial=np.inf) >= 2.0**-125  # nothing is subnormal, nor NaN
    if not usual:
        doubtful |= (np.abs(total) < 2.0**-125) & (total != 0)  # a sum of zero is exact
    if np.count_nonzero(doubtful):
        a, b, c = (np.broadcast_to(of, total.shape)[doubtful].astype(np.float64) for of in (a, b, c))
        result[doubtful] = round_to_odd(a * b, c)
    return result if usual else canonical(result)


def fma64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return a·b + c in float64, rounded once, bit for bit as the hardware does, except for the payload of a NaN.

    This is Boldo and Melquiond's algorithm. Elements on which it might overflow or underflow use exact fractions.
    """
    a, b, c = np.broadcast_arrays(a, b, c)
    if a.ndim > 1:
        return fma64(a.ravel(), b.ravel(), c.ravel()).reshape(a.shape)
    product = a * b
    result = product + c  # right where an operand is 0, infinite or NaN
    size = np.abs(product)
    safe = (size > SMALL) & (size < LARGE) & (np.abs(a) < LARGE) & (np.abs(b) < LARGE) & (np.abs(c) < LARGE)
    if safe.all():
        return _fused(a, b, c, product)
    where = np.flatnonzero(safe)
    result[where] = _fused(a[where], b[where], c[where], product[where])
    for i in np.flatnonzero(~safe & np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (a != 0) & (b != 0)):
        result[i] = _rounded(Fraction(a[i]) * Fraction(b[i]) + Fraction(c[i]))
    return result


def canonical(result: np.ndarray) -> np.ndarray:
    """Return float32 with every NaN replaced by the GPU's."""
    invalid = np.isnan(result)
    if invalid.any():
        result = np.where(invalid, NAN, result)
    return result


def _fused(a: np.ndarray, b: np.ndarray, c: np.ndarray, product: np.ndarray) -> np.ndarray:
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    high, low = two_sum(c, error)
    total, rest = two_sum(product, high)
    return total + round_to_odd(low, rest)


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two numbers of at most 26 bits whose sum is exactly x."""
    scaled = SPLIT * x
    high = scaled - (scaled - x)
    return high, x - high


def two_sum(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return x + y, rounded, and its error: together exactly the sum."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def round_to_odd(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return x + y in float64, rounded to odd: if inexact, to the neighbour whose last bit is 1."""
    total, error = two_sum(x, y)
    bits = total.view(np.int64)
    odd = bits + np.where((error > 0) == (total > 0), np.int64(1), np.int64(-1))  # away from 0, or towards it
    return np.where(np.isfinite(error) & (error != 0) & (bits & 1 == 0), odd, bits).view(np.float64)


def _rounded(exact: Fraction) -> float:
    """Return the nearest float64, ties to even, as Python's division of integers does."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
