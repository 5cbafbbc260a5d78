"""Defines tensor maps, which describe a matrix and the box of it that the copy engine copies at once."""

from dataclasses import dataclass
from typing import Any

from .errors import ArgumentError

BYTES = 128  # of a map, as the driver encodes it
SWIZZLE = 128  # bytes of a box's row, whose chunks of 16 are swizzled
BOX_MAX = 256  # elements along each side of a box
ALIGNMENT = 16  # bytes, of a matrix and of each of its rows


@dataclass(frozen=True, eq=False)
class TensorMap:
    """A row-major matrix and the box of it that one copy takes; elements outside the matrix arrive as zeros.

    It stands for arguments of ``cuTensorMapEncodeTiled``: a tensor of two dimensions, columns first, without
    interleaving and with a swizzle of 128 bytes.

    Attributes
    ----------
    array : array of NumPy or CuPy, shape (rows, columns)
        The matrix.
    rows, columns : int
        The box's extent. A row of it has 128 bytes.

    Raises
    ------
    ArgumentError
        The matrix is empty, its rows are no multiple of 16 bytes, or a map cannot have such a box.
    """

    array: Any
    rows: int
    columns: int

    def __post_init__(self) -> None:
        if self.array.ndim != 2 or not self.array.size or self.pitch % ALIGNMENT:
            raise ArgumentError(
                "array", f"shape {self.array.shape}, {self.pitch} bytes to a row", "rows of a multiple of 16 bytes"
            )
        if not 1 <= self.rows <= BOX_MAX:
            raise ArgumentError("rows", str(self.rows), f"1 to {BOX_MAX}")
        if self.columns * self.array.itemsize != SWIZZLE:
            raise ArgumentError("columns", str(self.columns), f"{SWIZZLE} bytes, as the swizzle wants")

    @property
    def pitch(self) -> int:
        """Bytes from one row of the matrix to the next."""
        return self.array.shape[-1] * self.array.itemsize

    @property
    def size(self) -> int:
        """Bytes of a box."""
        return self.rows * SWIZZLE
