"""Tensor maps as the driver encodes them: 128 bytes that a launch hands over by value."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ptxsim import ALIGNMENT, TensorMap
from ptxsim import MAP_BYTES as BYTES

from .errors import ArgumentError, DeviceError
from .operands import BF16, FP16, FP32

ENCODINGS = {FP16.operand: 6, FP32.operand: 7, BF16.operand: 9}  # CU_TENSOR_MAP_DATA_TYPE_FLOAT16 and so on
NO_INTERLEAVE, SWIZZLE_128B, L2_256B, FILL_ZEROS = 0, 3, 3, 0  # the driver's names begin with CU_TENSOR_MAP_
ENCODED = np.dtype([("words", np.uint64, BYTES // 8)])
"""What CuPy hands over by value."""
PLACE = 64  # bytes of whose multiple the driver wants to write to


def encode(tensor: TensorMap, driver: Any) -> np.void:
    """Return a map of a CuPy array, encoded.

    Parameters
    ----------
    tensor : TensorMap
        Of FP16, BF16 or FP32.
    driver : ctypes.CDLL
        The CUDA driver's library.

    Raises
    ------
    ArgumentError
        The array is of none of them, or does not begin at a multiple of 16 bytes.
    DeviceError
        The driver refuses.
    """
    array = tensor.array
    if array.dtype not in ENCODINGS:
        raise ArgumentError("array", f"dtype {array.dtype}", "float16, bfloat16 or float32")
    if array.data.ptr % ALIGNMENT:
        raise ArgumentError("array", f"memory at {array.data.ptr:#x}", f"memory at a multiple of {ALIGNMENT} bytes")
    memory = np.zeros(BYTES + PLACE, np.uint8)
    start = -memory.ctypes.data % PLACE
    rows, columns = array.shape
    status = driver.cuTensorMapEncodeTiled(
        ctypes.c_void_p(memory.ctypes.data + start),
        ctypes.c_int(ENCODINGS[array.dtype]),
        ctypes.c_uint32(2),
        ctypes.c_void_p(array.data.ptr),
        (ctypes.c_uint64 * 2)(columns, rows),  # innermost first
        (ctypes.c_uint64 * 1)(tensor.pitch),
        (ctypes.c_uint32 * 2)(tensor.columns, tensor.rows),
        (ctypes.c_uint32 * 2)(1, 1),
        *map(ctypes.c_int, (NO_INTERLEAVE, SWIZZLE_128B, L2_256B, FILL_ZEROS)),
    )
    if status:
        raise DeviceError(f"the driver encodes no tensor map of shape {array.shape}: error {status}")
    return memory[start : start + BYTES].copy().view(ENCODED)[0]
