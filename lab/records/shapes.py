"""Problems other than squares of round numbers, on which 13 is judged. A rule lists them, so none is hand-picked.

Every size is (M, N, K). In a product X·W of a network M counts the rows of X, which are tokens, pixels or examples, N
the outputs of the layer and K its inputs. A convolution is the product that it becomes when the patches of the picture
are laid out as rows: as many rows as pixels, K the channels times the patch.
"""

import math
import random
from itertools import pairwise, product

from .sizes import Size, sizes_of

SQUARES = tuple(sizes_of((*range(256, 4097, 128), 8192, 16384)))
"""The squares of the race: those of the sweep in ``published-results.csv``, and two more."""


def _transformer(tokens: int, width: int, inner: int, heads_width: int = 0) -> list[Size]:
    """Return a block's products: queries, keys and values at once, the heads' output, and the two of the MLP.

    `heads_width` is that of keys and of values, where it is not the block's.
    """
    inputs = width + 2 * (heads_width or width)
    return [(tokens, inputs, width), (tokens, width, width), (tokens, inner, width), (tokens, width, inner)]


def _head(tokens: int, width: int) -> list[Size]:
    """Return the two products of an attention head: scores, and values weighted by them."""
    return [(tokens, tokens, width), (tokens, width, tokens)]


def _mlp(examples: int, *widths: int) -> list[Size]:
    """Return the products of layers one after the other."""
    return [(examples, out, into) for into, out in pairwise(widths)]


def _pixels(side: int, *layers: tuple[int, int]) -> list[Size]:
    """Return the products of convolutions on a square picture, from their outputs and inputs."""
    return [(side * side, out, into) for out, into in layers]


LAYERS = tuple(
    (tokens, outputs, inputs)
    for tokens in (1, 4, 16, 64, 256)
    for outputs, inputs in ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336))
)
"""The products of a block of Llama 3 8B where there are few tokens: queries, keys and values at once, the heads'
output, the two inner layers of the MLP at once, and its outer one."""


NETWORKS: dict[str, list[Size]] = {
    "BERT base, 512 tokens": _transformer(512, 768, 3072) + _head(512, 64),
    "BERT large, 384 tokens": _transformer(384, 1024, 4096),
    "GPT-2, 1024 tokens": [*_transformer(1024, 768, 3072), *_head(1024, 64), (1024, 50257, 768)],
    "GPT-2 XL, 1024 tokens": _transformer(1024, 1600, 6400),
    "Llama 2 7B, 2048 tokens": _transformer(2048, 4096, 11008) + _head(2048, 128),
    "Llama 2 7B, 1 token": [*_transformer(1, 4096, 11008), (1, 32000, 4096)],
    "Llama 3 8B, 16 tokens": _transformer(16, 4096, 14336, 1024),
    "Llama 3 8B, 500 tokens": _transformer(500, 4096, 14336, 1024),
    "ViT-B/16, 197 tokens": _transformer(197, 768, 3072) + _head(197, 64),
    "CLIP's text encoder, 77 tokens": _transformer(77, 512, 2048),
    "Whisper large, 1500 frames": _transformer(1500, 1280, 5120),
    "ResNet-50": [
        *_pixels(112, (64, 147)),
        *_pixels(56, (64, 64), (64, 576), (256, 64), (64, 256)),
        *_pixels(28, (128, 1152), (512, 128), (128, 512)),
        *_pixels(14, (256, 2304), (1024, 256), (256, 1024)),
        *_pixels(7, (512, 4608), (2048, 512), (512, 2048)),
        (1, 1000, 2048),
    ],
    "VGG-16": [
        *_pixels(224, (64, 27), (64, 576)),
        *_pixels(112, (128, 1152)),
        *_pixels(56, (256, 2304)),
        *_pixels(28, (512, 4608)),
        *_pixels(14, (512, 4608)),
        *_mlp(1, 25088, 4096, 4096, 1000),
    ],
    "MobileNetV2": [
        *_pixels(112, (16, 32), (96, 16)),
        *_pixels(56, (144, 24)),
        *_pixels(28, (32, 192)),
        *_pixels(14, (576, 96)),
        *_pixels(7, (160, 960), (1280, 320)),
    ],
    "DLRM, 2048 examples": _mlp(2048, 13, 512, 256, 128) + _mlp(2048, 479, 1024, 1024, 512, 256, 1),
}
"""Products of layers of networks that are in use, for one picture or for the number of tokens in the name."""


_TALL = [(M, N, K) for M in (4096, 16384, 65536) for N, K in ((64, 64), (128, 128), (256, 256), (128, 1024))]
_VECTORS = ((1000, 1000), (1024, 1024), (4096, 4096), (4097, 4097), (16384, 1024), (1024, 16384))
_THIN = tuple(product((2, 4, 8, 16, 32, 64), (1024, 4096)))


def _off_by_one() -> list[Size]:
    """Return powers of two plus and minus one, in all extents and in each; and sizes around 132 tiles, one per SM."""
    one = (-1, 1)
    found = [(n + by,) * 3 for n in (128, 256, 512, 1024, 2048, 4096) for by in one]
    found += [tuple(n + by * (i == at) for i in range(3)) for n in (1024, 2048) for at in range(3) for by in one]
    M, N = 12 * 128, 11 * 256
    return [*found, (M, N, 2048), *((M + m, N + n, 2048) for m in one for n in one)]


def _drawn(number: int, least: int, most: int, seed: int) -> list[Size]:
    """Return random sizes: the logarithm of each extent is as likely here as there."""
    draw, ends = random.Random(seed), (math.log(least), math.log(most))
    return [tuple(round(math.exp(draw.uniform(*ends))) for _ in range(3)) for _ in range(number)]


FAMILIES: dict[str, tuple[Size, ...]] = {
    "tall": tuple(_TALL),
    "flat": tuple((N, M, K) for M, N, K in _TALL),
    "deep": tuple((n, n, K) for n in (16, 32, 64, 128, 256, 512) for K in (4096, 16384, 65536)),
    "shallow": tuple((n, n, K) for n in (1024, 4096, 8192) for K in (1, 4, 16, 64)),
    "vector": tuple(size for n, K in _VECTORS for size in ((1, n, K), (n, 1, K))),
    "thin": tuple(size for side, n in _THIN for size in ((side, n, n), (n, side, n))),
    "layers": tuple(size for sizes in NETWORKS.values() for size in sizes),
    "off by one": tuple(_off_by_one()),
    "drawn": tuple(_drawn(40, 1, 8192, seed=0)),
}
"""Families of problems, by what makes them special."""

FAMILY_OF: dict[Size, str] = {}
"""The first family that has a size, by the size."""
for _name, _sizes in FAMILIES.items():
    FAMILY_OF |= {size: _name for size in _sizes if size not in FAMILY_OF}

SHAPES: tuple[Size, ...] = tuple(FAMILY_OF)
"""All of them, each once."""

RANDOM: tuple[Size, ...] = tuple(_drawn(1000, 8, 11_600, seed=28))
"""Random problems, at which nothing of 13 is fitted and nothing searched: they say what the model alone is worth."""


def _rounded(number: int, least: int, most: int, seed: int) -> list[Size]:
    """Return random sizes whose sides are multiples of eight."""
    return [tuple(-(-side // 8) * 8 for side in size) for size in _drawn(number, least, most, seed)]


FITTED_TO: tuple[Size, ...] = tuple(_rounded(90, 48, 11_000, seed=77))
"""Random problems to which the model of 22 is fitted, besides others."""

HELD_OUT: tuple[Size, ...] = tuple(
    dict.fromkeys((*_drawn(493, 8, 11_600, seed=33), *_rounded(500, 8, 11_600, seed=34)))
)
"""The same for 22; sides of the second half are multiples of eight, so that rows begin at multiples of 16 bytes."""
