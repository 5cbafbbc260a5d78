"""The list of problems that are no round squares: by a rule, long enough, and what its families' names say."""

import itertools

import pytest

from lab.records.shapes import FAMILIES, FAMILY_OF, NETWORKS, SHAPES, SQUARES
from sgemm_tutorial.operands import INT_MAX

MEANS = {
    "tall": lambda M, N, K: M >= 16 * N,
    "flat": lambda M, N, K: N >= 16 * M,
    "deep": lambda M, N, K: M == N and K >= 8 * M,
    "shallow": lambda M, N, K: M == N and M >= 16 * K,
    "vector": lambda M, N, K: min(M, N) == 1 < K,
    "thin": lambda M, N, K: 1 < min(M, N) <= 64 < max(M, N) == K,
    "off by one": lambda M, N, K: (M, N) == (1536, 2816) or any(n % 128 in (1, 127) for n in (M, N, K)),
}


@pytest.mark.parametrize("family", MEANS)
def test_a_family_is_what_it_is_called(family):
    assert FAMILIES[family] and all(MEANS[family](*size) for size in FAMILIES[family])


def test_there_are_enough_and_each_is_there_once():
    assert len(SHAPES) == len(set(SHAPES)) >= 200
    assert set(SHAPES) == {size for sizes in FAMILIES.values() for size in sizes}
    assert not set(SHAPES) & set(SQUARES) and len(SQUARES) == 33
    assert all(1 <= extent <= INT_MAX for size in SHAPES for extent in size)
    for size, family in FAMILY_OF.items():
        assert size in FAMILIES[family]


def test_vectors_both_ways_and_every_thinness():
    assert {(M == 1, N == 1) for M, N, _ in FAMILIES["vector"]} == {(True, False), (False, True)}
    for side in (2, 4, 8, 16, 32, 64):
        assert any(side == M for M, _, _ in FAMILIES["thin"]) and any(side == N for _, N, _ in FAMILIES["thin"])


def test_a_networks_products_fit_together():
    """A layer's output is the next one's input."""
    qkv, project, up, down = NETWORKS["GPT-2, 1024 tokens"][:4]
    assert qkv == (1024, 3 * 768, 768) and project[1] == up[2] and up[1] == down[2] and down[1] == qkv[2]
    grouped = NETWORKS["Llama 3 8B, 16 tokens"][0]
    assert grouped == (16, 4096 + 2 * 1024, 4096)
    layers = NETWORKS["DLRM, 2048 examples"][3:]
    assert all(one[1] == two[2] for one, two in itertools.pairwise(layers))


def test_what_is_drawn_is_drawn_alike_everywhere():
    assert FAMILIES["drawn"][:2] == ((2016, 925, 44), (10, 100, 38))
