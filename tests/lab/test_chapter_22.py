"""Chapter 22's pieces against what they promise, and against the kernel that deals them out."""

import dataclasses

import numpy as np
import pytest

import lab
import sgemm_tutorial as sg
from lab.chapters import equal_shares as page


@pytest.mark.parametrize(
    ("clusters", "shared", "tiles", "steps"),
    [(5, 9, 9, 4), (128, 8, 8, 256), (24, 2, 2, 256), (5, 2, 9, 4), (3, 0, 7, 2), (7, 3, 3, 11)],
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
    kinds = [page.kind(size) for size in page.points()]
    assert set(kinds) == set(page.KINDS) and page.kind((4095,) * 3) == "rows copied"
    assert page.kind((57, 2, 18)) == "without tensor cores" and page.kind((256, 256, 16384)) == "rows fetched"


@pytest.mark.parametrize("parts", [1, 2, 4, 8, 16])
def test_the_pencil_only_rounds(parts):
    of, shared = page.setting(64, 128), 8 * (parts > 1)
    expected = page.any_shape.cost(of, page.LONG, shared, 8 * parts, multiprocessors=132)
    assert float(page.weighed(parts).rows[0][5]) == pytest.approx(expected, abs=0.02)
    assert (8 * parts, expected) in [(clusters, us) for us, _, clusters in ways(of)]


def ways(of):
    return page.any_shape.ways(tuple(of.values()), page.LONG, 132)


def test_the_thread_that_chapter_22_follows_adds_what_its_cluster_leaves():
    """Thread 70 of block 325, in the names of `add_parts.cu`, and cluster 37."""
    source, (_, shared, clusters) = page.any_shape.ADD.source, ways(page.setting(64, 128))[0]
    slices = page.any_shape.MANY if clusters >= 2 * page.any_shape.MANY * shared else 1
    THREADS, each, across, steps, every = 256, 32, 32, 256, 2048
    assert (shared, clusters, slices, each * slices) == (8, 128, 8, THREADS) and page.any_shape.ADD.threads == THREADS
    assert "blockIdx.x % blocks * each + threadIdx.x % each" in source and 64 * across // each == 64
    tile, slice_, i = 325 // 64, 70 // each, 325 % 64 * each + 70 % each
    assert (tile, slice_, i) == (5, 2, 166)
    assert (64 + i // across, 128 + i % across * 4) == (69, 152)
    begins, last = (((step + 1) * clusters - 1) // every for step in (tile * steps, (tile + 1) * steps - 1))
    parts = last - begins + 1
    assert (begins, parts, slice_ * parts // slices, (slice_ + 1) * parts // slices) == (80, 16, 4, 6)
    (piece,) = page.pieces(37, clusters, shared, 8, steps)
    share = (tile * steps + piece[1]) * clusters // every
    assert piece == (tile, 64, 80) and share + tile == 89 == begins + tile + 4
    alike = {(*page.pieces(cluster, clusters, shared, 8, steps),)[0][1:] for cluster in range(32, 40)}
    assert alike == {(64, 80)}


def test_who_chose_for_what_chapter_22_counts():
    every = {*page.SQUARES, *page.SHAPES, *page.LAYERS}
    assert page.searched().keys() == {size for size in every if page.way(size) != page.WAYS[2]}
    assert not page.points(recording=page.RANDOM).keys() & every, "new products"
    assert page.launched((1024,) * 3, page.ALONE).blocks == 128, "as the deeper page writes it"


@pytest.mark.parametrize("of", [page.setting(64, 64, 2), page.setting(128, 256, 2)], ids=str)
def test_the_shuffle_alone_keeps_descriptors_in_uniform_registers(of):
    def moved(kernel):
        opcodes = [instruction.opcode for instruction in lab.hot_loop(lab.sass(kernel.variant(**of)))]
        return opcodes.count("R2UR"), sum(opcode.startswith("HGMMA") for opcode in opcodes)

    assert (moved(page.OWN_NUMBER), moved(page.KERNEL)) == ((16, 4), (0, 4))


def test_the_shuffle_brings_stages_into_uniform_registers_too():
    """A stage is the remainder of a division by their number, 12, which takes multiplications."""
    of, wide = page.setting(64, 32), []
    for kernel in (page.OWN_NUMBER, page.KERNEL):
        loop = lab.hot_loop(lab.sass(kernel.variant(**of)))
        wide.append(sum(instruction.opcode.startswith("UIMAD") for instruction in loop))
    assert of["STAGES"] == 12 and wide == [0, 2]


@pytest.mark.parametrize(
    ("use", "moved", "in_large"),
    [("if (warp >=", 16, 0), ("here.row += warp", 16, 16), ("describe(&As[stage][warp", 8, 8)],
)
def test_a_branch_that_is_not_uniform_keeps_both_descriptors_from_being(use, moved, in_large):
    own = dataclasses.replace(page.KERNEL, edits=((use, use.replace("warp", "threadIdx.x / 32")),), label=use)
    loops = [lab.hot_loop(lab.sass(own.variant(**page.setting(*of)))) for of in ((64, 32), (128, 256, 2))]
    assert [[each.opcode for each in loop].count("R2UR") for loop in loops] == [moved, in_large]
