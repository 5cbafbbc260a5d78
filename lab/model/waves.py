"""The share of a GPU's work that a problem makes use of, as tiles and blocks come whole.

A block at the edge of C computes a whole tile of which a part is thrown away, and a GPU of 132 SMs that has 133 equal
blocks to run needs as long as for 264. Both shares are between 0 and 1, and are what a kernel's speed at its best has
to be multiplied with.
"""

from sgemm_tutorial.catalogue import find
from sgemm_tutorial.errors import ArgumentError
from sgemm_tutorial.kernel import Kernel


def tile_share(kernel: Kernel | str, M: int, N: int) -> float:
    """Return the elements of C over those of all the tiles that cover it.

    Raises
    ------
    ArgumentError
        M or N is not positive.
    """
    for name, size in (("M", M), ("N", N)):
        if size < 1:
            raise ArgumentError(name, str(size), "1 or more")
    kernel = find(kernel)
    return M * N / (kernel.grid(M, N) * kernel.parameters["BM"] * kernel.parameters["BN"])


def wave_share(blocks: int, places: int) -> float:
    """Return equal blocks over the places that they leave used or empty in rounds of `places` at a time.

    With as many places as blocks fit on the GPU at once, these are the textbook's waves. With a place per SM, it is
    the share of SMs at work if an SM takes twice as long for two blocks, whether it runs them together or in turn.

    Raises
    ------
    ArgumentError
        A number is not positive.
    """
    for name, number in (("blocks", blocks), ("places", places)):
        if number < 1:
            raise ArgumentError(name, str(number), "1 or more")
    rounds = -(-blocks // places)
    return blocks / (rounds * places)
