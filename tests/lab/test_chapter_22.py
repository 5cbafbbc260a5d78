"""Chapter 22's pieces against what they promise, and against the kernel that deals them out."""

import dataclasses

import numpy as np
import pytest

import lab
import sgemm_tutorial as sg
from lab.chapters import equal_shares as page
from lab.records.shapes import FITTED_TO, LAYERS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("clusters", "shared", "tiles", "steps"),
    [(5, 9, 9, 4), (64, 4, 4, 256), (24, 2, 2, 256), (5, 2, 9, 4), (3, 0, 7, 2), (7, 3, 3, 11)],
)
def test_pieces_cover_each_step_once_in_equal_shares(clusters, shared, tiles, steps):
    done, shares = np.zeros((tiles, steps), int), []
    for cluster in range(clusters):
        mine = list(page.pieces(cluster, clusters, shared, tiles, steps))
        for tile, begin, end in mine:
            assert 0 <= begin < end <= steps
            done[tile, begin:end] += 1
        shares.append(sum(end - begin for tile, begin, end in mine if tile < shared))
    assert (done == 1).all() and max(shares) - min(shares) <= 1


@pytest.mark.parametrize("shared", [9, 4])
def test_the_kernel_leaves_a_part_where_a_piece_is_one(shared):
    kernel = page.KERNEL.variant(BM=64, BN=32, WN=32, STAGES=3, THREADS=160, CLUSTER=1).divided(shared, 5)
    A, B = sg.matrices(130, 70, 256, on_gpu=False, types=kernel.types)
    run = sg.simulate(kernel, A, B, trace=range(5))
    parts = {
        (block, block + tile)  # the place: number of the share and of the tile
        for block in range(5)
        for tile, begin, end in page.pieces(block, 5, shared, 9, 4)
        if end - begin < 4
    }
    place = 4 * 64 * 32
    left = {
        (access.block, int(access.offsets[0]) // place)
        for access in run.trace
        if access.array == "workspace" and access.kind == "store"
    }
    assert left == parts


def test_each_product_is_of_one_kind():
    shapes = {"large": (1160, 1160, 1160), "small": (128, 128, 136), "thin or short": (4096, 4096, 128)}
    assert {name: page.kind(size) for name, size in shapes.items()} == {name: name for name in shapes}
    assert page.kind((120, 4096, 4096)) == "thin or short"
    assert {page.kind(size) for size in ((4096, 4095, 4096), (4096, 4096, 63), (1, 1, 1))} == {"unaligned rows"}
    assert {page.kind(size) for size in page.points()} == set(page.KINDS)


def test_the_picture_shows_three_ways():
    said = page.picture(2, 10, 5).alt
    assert [said.count(name) for name in ("Whole tiles", "Split K: even shares", "Uneven shares")] == [1, 1, 1]
    assert "10 steps, 40%" in said and "5 steps, 80%" in said and "4 steps, 100%" in said
    assert "cluster 2: tile 0 steps 8 to 9, tile 1 steps 0 to 1" in said
    assert [*page.pieces(2, 5, 2, 2, 10)] == [(0, 8, 10), (1, 0, 2)]


def test_ways_to_do_the_chapters_product_have_as_many_clusters_as_shares():
    for tile, clusters, parts, _ in page.parted().rows:
        shares, blocks = map(int, clusters.split(" of "))
        rows, columns = map(int, tile.split(" × "))
        tiles = 256 // (rows * blocks) * (256 // columns)
        assert float(parts.removesuffix(" (uneven)")) * tiles == shares and shares * blocks <= 132
        assert ("uneven" in parts) == (shares % tiles > 0)


def test_the_first_row_of_the_decisions_has_no_way_that_leaves_sums_uncut():
    first, second, third = page.when().rows
    assert first[1:] == (9, 1, 0, 0) and second[1] > 0 and third[1] == 0
    assert {page.sort(of.best) for of in page.searched().values()} == {"shares", "deep.cu", "uncut"}


def test_the_sum_that_chapter_22_follows_comes_from_its_cluster_to_its_place_in_c():
    """C[144][152], in the names of the kernel and of `add_parts.cu`, and cluster 5."""
    source, way = page.any_shape.ADD.source, page.searched()[page.LONG].best
    shared, clusters, across, steps, every = way.whole, way.shares, 128 // 4, 256, 512
    assert (shared, clusters, shared * steps) == (2, 24, every)
    assert clusters < 2 * page.any_shape.MANY * shared, "a thread adds all parts"
    assert "i / across, col = at.across * size_t(BN) + i % across * 4" in source
    block, warp = 144 // 64, 144 % 64 // 16
    assert (block, warp, block * 64 + warp * 16, 152 - 128) == (2, 1, 144, 24), "tile 1 is to the right of tile 0"
    part = 144 * 128 + 24
    tile, i = 50 // 32, 50 % 32 * 256 + 6
    assert (part, part // 4, part % 4, 256 * across) == (18456, i, 0, 32 * 256)
    assert (tile, i // across, 128 + i % across * 4) == (1, 144, 152)
    begins, last = (((step + 1) * clusters - 1) // every for step in (tile * steps, (tile + 1) * steps - 1))
    assert (begins, last, begins + tile, last - begins + 1) == (12, 23, 13, 12)
    (piece,) = page.pieces(5, clusters, shared, 2, steps)
    share = ((tile * steps + piece[1] + 1) * clusters - 1) // every
    assert piece == (tile, 42, 64) and share == 14 and share + tile == 15 == begins + tile + 2
    assert [*page.pieces(4, clusters, shared, 2, steps)] == [(0, 42, 64)]


def test_the_cluster_that_the_second_page_follows_has_a_tile_for_each_team():
    [of] = [of for of in page.any_shape.PACES if of[:2] == (128, 160) and of[3:] == (2, 32)]
    tiles, steps = -(-page.TURNED[0] // 256) * -(-page.TURNED[1] // 160), page.TURNED[2] // 64
    assert (tiles, steps, of[2], page.searched()[page.TURNED].best.shares) == (120, 25, 5, 66)
    assert list(page.pieces(5, 66, 0, tiles, steps)) == [(5, 0, 25), (71, 0, 25)]


def test_who_chose_for_what_chapter_22_counts():
    every = {*page.SQUARES, *page.SHAPES, *LAYERS, *FITTED_TO}
    assert page.searched().keys() == {
        size for size in every if page.launched(size).kernel.name in ("22_any_shape", "deep")
    }
    assert not page.points(recording=page.RANDOM).keys() & every, "new products"


@pytest.mark.parametrize("of", [page.any_shape.setting(64, 64, 12, 2), page.any_shape.setting(128, 256, 4, 2)], ids=str)
def test_the_shuffle_alone_keeps_descriptors_in_uniform_registers(of):
    def moved(kernel):
        opcodes = [instruction.opcode for instruction in lab.hot_loop(lab.sass(kernel.variant(**of)))]
        return opcodes.count("R2UR"), sum(opcode.startswith("HGMMA") for opcode in opcodes)

    assert (moved(page.OWN_NUMBER), moved(page.KERNEL)) == ((16, 4), (0, 4))


def test_the_shuffle_brings_stages_into_uniform_registers_too():
    """A stage is the remainder of a division by their number, 12, which takes multiplications."""
    of, wide = page.any_shape.setting(64, 32, 12), []
    for kernel in (page.OWN_NUMBER, page.KERNEL):
        loop = lab.hot_loop(lab.sass(kernel.variant(**of)))
        wide.append(sum(instruction.opcode.startswith("UIMAD") for instruction in loop))
    assert of["STAGES"] == 12 and wide == [0, 2]


@pytest.mark.parametrize(
    ("use", "moved", "in_large"),
    [("if (warp >=", 16, 0), ("before = s * 64 + member", 16, 16), ("quad = member", 0, 8)],
)
def test_a_branch_that_is_not_uniform_keeps_both_descriptors_from_being(use, moved, in_large):
    number = "threadIdx.x / 32"
    without = use.replace("warp", number).replace("member", f"({number} % team)")
    own = dataclasses.replace(page.KERNEL, edits=((use, without),), label=use)
    loops = [
        lab.hot_loop(lab.sass(own.variant(**page.any_shape.setting(*of)))) for of in ((64, 32, 12), (128, 256, 4, 2))
    ]
    assert [[each.opcode for each in loop].count("R2UR") for loop in loops] == [moved, in_large]
