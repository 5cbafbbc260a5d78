"""The ladder's kernels on the simulator: chosen blocks, traces, lines, huge matrices, no alarms, and its speed."""

import dataclasses
import functools
import re
import time

import numpy as np
import pytest

from ptxsim import SimulationFault, parse
from sgemm_tutorial import LADDER, ArgumentError, find, matrices, simulate
from sgemm_tutorial.compiler import PTX_ALONE
from tools.mutants import instances

from ..examples import floats
from ..ptxsim.test_copies import HELPERS
from ..sources import probe

pytestmark = pytest.mark.slow

KERNELS = [instances(kernel)[0] for kernel in LADDER[:-1]]
"""Kernels with small tiles, which compile and run in a fraction of the time; the suite has the book's."""
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)

# What `simulate` takes and gives.


@each_kernel
def test_chosen_blocks(kernel):
    """Each tile of C is its block's, of 12 where there are as many SMs; blocks named twice run once."""
    of = kernel.parameters
    M, N, K = 2 * of["BM"] + 3, of["BN"] + 5, 20
    A, B, C = floats(M, K), floats(K, N), floats(M, N)
    tiles = kernel.grid(M, N)
    run = functools.partial(simulate, kernel, A, B, multiprocessors=tiles)
    whole = run(C.copy(), 1.0, 1.0).C
    for block in range(tiles):
        row, col = block // 2 * of["BM"], block % 2 * of["BN"]
        tile = np.zeros((M, N), bool)
        tile[row : row + of["BM"], col : col + of["BN"]] = True
        part = run(C.copy(), 1.0, 1.0, blocks=[block, block])
        assert np.array_equal(part.C[tile], whole[tile])
        assert np.array_equal(part.C[~tile], C[~tile])
        assert part.total.global_store_bytes == 4 * np.count_nonzero(tile)
    assert np.isnan(run(blocks=[]).C).all()


def test_chosen_blocks_that_share_tiles():
    """A tile is written once all blocks with a part of its sum have run, and until then stays as it was."""
    kernel = KERNELS[LADDER.index(find("12"))]
    BM, BN, BK = (kernel.parameters[name] for name in ("BM", "BN", "BK"))
    M, N, K, blocks = 3 * BM, BN, 2 * BK, 4
    owners = ({0, 1}, {1, 2}, {3})  # six steps among four blocks: 1, 2, 1 and 2 of them
    A, B, C = floats(M, K), floats(K, N), floats(M, N)
    run = functools.partial(simulate, kernel, A, B, multiprocessors=blocks)
    whole = run(C.copy(), 1.0, 1.0).C
    for chosen in ({0}, {3}, {0, 1}, {0, 2}, {1, 2}, {1, 2, 3}):
        part = run(C.copy(), 1.0, 1.0, blocks=chosen).C
        for tile, needed in enumerate(owners):
            rows = slice(tile * BM, (tile + 1) * BM)
            assert np.array_equal(part[rows], (whole if needed <= chosen else C)[rows]), (chosen, tile)


@pytest.mark.parametrize("keyword", ["blocks", "trace"])
@pytest.mark.parametrize("number", [-1, 4])
def test_blocks_that_do_not_exist(keyword, number):
    with pytest.raises(ArgumentError, match=rf"{keyword}: got \[{number}\], needs blocks from 0 to 3"):
        kernel = find("03").variant(BM=32, BN=32)
        simulate(kernel, floats(33, 4), floats(4, 64), **{keyword: [number]})


def test_the_trace_holds_every_access_of_the_traced_block():
    kernel = find("03").variant(BM=32, BN=32, BK=32)
    M, N, K = 40, 70, 33
    run = simulate(kernel, floats(M, K), floats(K, N), floats(M, N), 1.0, 1.0, trace=[4])
    total = simulate(kernel, floats(M, K), floats(K, N), floats(M, N), 1.0, 1.0, blocks=[4]).total
    assert {access.block for access in run.trace} == {4}
    for space in ("global", "shared"):
        for kind in ("load", "store"):
            mine = [access for access in run.trace if (access.space, access.kind) == (space, kind)]
            assert sum(access.width * len(access.threads) for access in mine) == getattr(total, f"{space}_{kind}_bytes")
            assert all(access.threads.shape == access.offsets.shape for access in mine)
    row, col = 32, 32  # block 4 is the second row of tiles, the second column
    (store,) = [access for access in run.trace if access.kind == "store" and access.space == "global"]
    inside = [(t, row + t // 32, col + t % 32) for t in range(1024) if row + t // 32 < M and col + t % 32 < N]
    assert store.array == "C"
    assert store.threads.tolist() == [t for t, _, _ in inside]
    assert store.offsets.tolist() == [4 * (r * N + c) for _, r, c in inside]
    fill = next(access for access in run.trace if access.array == "As")
    assert (fill.kind, fill.width, fill.offsets.tolist()) == ("store", 4, list(range(0, 4096, 4)))
    assert {access.array for access in run.trace} == {"A", "B", "C", "As", "Bs"}
    first = next(access for access in run.trace if access.array == "Bs")
    assert first.offsets.tolist() == list(range(0, 4096, 4))


def test_lines_are_the_sources_lines():
    kernel = find("02")
    lines = simulate(kernel, floats(32, 8), floats(8, 32), np.ones((32, 32), np.float32), 1.0, 1.0).lines
    text = kernel.source.splitlines()
    for number, counts in lines.items():
        assert bool(counts.global_store_requests) == text[number - 1].strip().startswith("C[")
        if counts.global_load_requests:
            assert "A[" in text[number - 1] or "+= beta * C[" in text[number - 1]


def test_what_a_header_does_counts_for_the_line_that_calls_it():
    kernel = find("07").variant(BM=32, BN=32, BK=8, TM=4, TN=4)
    text = kernel.source.splitlines()
    fetches = [number for number, line in enumerate(text, 1) if "load4(" in line or "float4*>(&Bs" in line]
    (ends,) = [number for number, line in enumerate(text, 1) if "finish<" in line]
    for K in (8, 7):  # in fours and one by one
        lines = simulate(kernel, floats(32, K), floats(K, 32), np.ones((32, 32), np.float32), 1.0, 1.0).lines
        assert {line for line, counts in lines.items() if counts.global_load_requests} <= {*fetches, ends}
        assert [line for line, counts in lines.items() if counts.global_store_requests] == [ends]
        assert lines[ends].global_store_bytes == lines[ends].global_load_bytes == 4 * 32 * 32
        assert sum(lines[line].global_load_bytes for line in fetches) == 4 * 2 * 32 * K


def test_the_result_is_c_itself():
    A, B, C = floats(5, 3), floats(3, 4), floats(5, 4)
    assert simulate(find("01"), A, B, C, 2.0, 0.5).C is C
    assert find("01")(A, B, C) is C
    assert np.array_equal(find("01")(A, B), C)


SMALL = floats(33, 20), floats(20, 34)


@functools.cache
def usual(kernel):
    return simulate(kernel, *SMALL).C


@pytest.mark.parametrize("oldest", [True, False], ids=["oldest", "newest"])
def test_every_architecture_gives_the_same(oldest):
    """The oldest that a kernel can be compiled for, and the newest that there is."""
    for kernel in KERNELS:
        architecture = "compute_{}{}".format(*(max(kernel.least_capability, (7, 5)) if oldest else (10, 0)))
        assert np.array_equal(simulate(kernel, *SMALL, architecture=architecture).C, usual(kernel)), kernel.name


# Past 2³² elements. The matrices are files with holes: only what the chosen block touches takes room.

FAR = {"A": (2**30, 1, 5), "B": (1, 2**30, 5), "C": (2**17 - 8, 2**16, 3)}
"""M, N and K at which that matrix has more than 2³² elements."""


def far_tile(folder, kernel, M, N, K):
    """Compute the last tile of C, which is the last block's, of 12 where there are as many SMs as tiles.

    Return it and what it should be.
    """
    try:
        A, B, C = (
            np.memmap(folder / name, np.float32, "w+", shape=shape)
            for name, shape in (("A", (M, K)), ("B", (K, N)), ("C", (M, N)))
        )
    except OSError as error:
        pytest.skip(f"no files with holes of {4 * max(M * K, K * N, M * N):,} bytes here: {error}")
    rows = slice((M - 1) // kernel.parameters["BM"] * kernel.parameters["BM"], M)
    columns = slice((N - 1) // kernel.parameters["BN"] * kernel.parameters["BN"], N)
    A[rows] = floats(rows.stop - rows.start, K)
    B[:, columns] = floats(K, columns.stop - columns.start, seed=1)
    C[rows, columns] = floats(rows.stop - rows.start, columns.stop - columns.start, seed=2)
    expected = A[rows].astype(np.float64) @ B[:, columns] + C[rows, columns]
    tiles = kernel.grid(M, N)
    simulate(kernel, A, B, C, 1.0, 1.0, blocks=[tiles - 1], architecture="compute_90", multiprocessors=tiles)
    return C[rows, columns], expected


@pytest.mark.parametrize("matrix", FAR)
@each_kernel
def test_past_two_to_the_32_elements(place, kernel, matrix):
    M, N, K = FAR[matrix]
    assert {"A": M * K, "B": K * N, "C": M * N}[matrix] > 2**32
    got, expected = far_tile(place, kernel, M, N, K)
    assert np.allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("narrow", ["int", "unsigned"])
@each_kernel
def test_32_bit_offsets_are_caught(tmp_path, place, kernel, narrow):
    for name, text in kernel.files.items():
        # But not of a pointer itself, nor of 12's steps, which are no offsets.
        source, changes = re.subn(r"size_t(?!\(matrix)(?![^\n]*\bsteps?\b)", narrow, text)
        assert changes
        (tmp_path / name).write_text(source)
    broken = dataclasses.replace(kernel, folder=tmp_path)
    caught = []
    for matrix, shape in FAR.items():
        try:
            got, expected = far_tile(place, broken, *shape)
        except SimulationFault as fault:
            assert fault.kind == "out of bounds"
            caught.append(matrix)
        else:
            if not np.allclose(got, expected, atol=1e-5):
                caught.append(matrix)
    assert caught == list(FAR)


# Speed. On one core of 2026's machines these take a tenth of the limit.


@pytest.mark.parametrize(
    ("kernel", "size", "limit"),
    [*((kernel, 128, 1.0) for kernel in LADDER[:-1]), *((kernel, 256, 5.0) for kernel in (LADDER[0], LADDER[-2]))],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_speed(kernel, size, limit):
    kernel.build(PTX_ALONE)
    A, B = matrices(size, size, size, on_gpu=False)
    begin = time.process_time()
    simulate(kernel, A, B)
    assert time.process_time() - begin <= limit


# What is right raises no alarm, and is read in full.


@pytest.mark.parametrize("kernel", LADDER, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 31, 65), (64, 64, 64)])
def test_the_ladder_raises_no_alarm(kernel, shape):
    M, N, K = shape
    A, B = floats(M, K), floats(K, N)
    simulate(kernel, A, B)
    C = simulate(kernel, A, B, np.zeros((M, N), np.float32), 1.0, 1.0).C
    assert np.allclose(C, A.astype(np.float64) @ B, atol=1e-4)


@pytest.mark.parametrize("kernel", LADDER[:-1], ids=lambda kernel: kernel.name)
def test_the_ladder_is_read_in_full(kernel):
    binary = kernel.build()
    read = parse(binary.ptx, binary.entry)
    assert len(read.parameters) == 8 + len(kernel.family.arguments)
    opcodes = [i.opcode for block in read.blocks for i in block]
    body = binary.ptx.partition(f".entry {binary.entry}(")[2]
    assert len(opcodes) == len(re.findall(r"^\t(?:@!?%\w+ )?[a-z][\w.:]*(?:\s[^\n]*)?;$", body, re.MULTILINE))
    assert all(1 <= i.line <= len(kernel.source.splitlines()) for block in read.blocks for i in block)


def test_the_table_shows_the_lines_of_copies_and_waits(tmp_path):
    body = "__shared__ unsigned s[32];\ncopy<4>(s + t, a + t);\ncommit();\nwait<0>();\nc[t] = s[t];"
    text = str(simulate(probe(tmp_path, body, before=HELPERS), floats(1, 32), floats(32, 32)))
    assert "cp.async.ca" in text
    assert "commit_group" in text
    assert "wait_group" in text
