"""A bound on the errors of sums on tensor cores, for any order and any truncation that a GPU may have."""

import numpy as np

UNIT_ROUNDOFF = 2.0**-23  # of float32 when it is truncated


def accumulation_bound(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return a bound on the error of a matrix product on tensor cores, which also bounds how far two GPUs differ.

    "Parallel Thread Execution ISA", "wmma.mma", promises products and sums of at least single precision, and leaves
    order and rounding open. M. Fasi, N. J. Higham, M. Mikaitis and S. Pranesh, "Numerical behavior of NVIDIA tensor
    cores", PeerJ Computer Science 7:e330, 2021, found by experiment: the terms of a block, which are a few products and
    the sum so far, are aligned to the largest and truncated behind at least 23 bits, and so is their sum. A block of t
    terms then loses less than t·2⁻²³ of Σ|a||b|: t − 1 terms by their alignment, and their sum. Over all blocks t adds
    up to at most 2K, with blocks of one product each. So the error is at most γ(2K) Σ|a||b|, where
    γ(n) = n·u / (1 − n·u) and u = 2⁻²³ (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM
    2002, §3.1). The bound returned is for 3K, since `multiply_accumulate`, with blocks of 17 terms and two more bits,
    loses at most another K. PTX also leaves open how factors below their type's normal range are handled; here they
    count as the least normal number, 2⁻¹⁴ for float16, to whose exponent they are aligned.

    Parameters
    ----------
    A, B : array of float16, or of a type with float32's exponents; shapes (M, K) and (K, N)
        Finite.

    Returns
    -------
    array of float64, shape (M, N)
        The bound for the sums themselves, before α and β, as long as nothing overflows.
    """
    nu = 3 * A.shape[1] * UNIT_ROUNDOFF
    least = 2.0 ** (-14 if A.dtype == np.float16 else -126)
    sizes = [np.where(X == 0, 0.0, np.maximum(np.abs(X.astype(np.float64)), least)) for X in (A, B)]
    return nu / (1 - nu) * (sizes[0] @ sizes[1])
