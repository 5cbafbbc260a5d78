"""The machine: divergence, barriers, partial warps, chosen blocks, traces, huge matrices, and its speed."""

import dataclasses
import functools
import re
import time

import numpy as np
import pytest

from ptxsim import ArgumentError, SimulationFault
from ptxsim.machine import Machine
from ptxsim.ptx import parse
from sgemm_tutorial import LADDER, find, matrices, simulate
from sgemm_tutorial.compiler import PTX_ALONE
from tools.mutants import instances

from ..sources import floats, line_of, probe, run_bits
from .random_programs import Program

KERNELS = [instances(kernel)[0] for kernel in LADDER[:-1]]
"""With small tiles, which are compiled and run in a fraction of the time; the suite has those of the book."""
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)

# Random programs against Python, thread by thread.

THREADS = (32, 20, 45, 64, 70, 1, 128)


@pytest.mark.parametrize("seed", range(14))
def test_a_random_program_does_what_python_does(tmp_path, seed):
    threads = THREADS[seed % len(THREADS)]
    program = Program(seed, threads)
    words = np.random.default_rng(seed).integers(0, 2**32, 64).tolist()
    got, _ = run_bits(probe(tmp_path, program.cuda, threads), words, columns=3 * threads)
    assert got.tolist() == program.expected(words, 3)


def test_random_programs_diverge(tmp_path):
    """They would test little if the compiler turned all their branches into selections."""
    kernels = [probe(tmp_path, Program(seed, THREADS[seed]).cuda, THREADS[seed]) for seed in range(7)]
    branches = [len(re.findall(r"^\t@.* bra", kernel.build(PTX_ALONE).ptx, re.MULTILINE)) for kernel in kernels]
    assert sorted(branches)[3] > 30


# Divergence, by hand.


def test_nested_branches_and_an_early_return(tmp_path):
    kernel = probe(
        tmp_path,
        """
        if (t == 7) return;
        unsigned x = a[t];
        if (t % 2) {
            if (t % 3) x = x * 3; else { c[t] = 1000 + a[31 - t]; return; }
        } else if (t > 20) x = a[x % 32] + 5;
        c[t] = x;""",
    )
    a = [3 * i + 1 for i in range(32)]
    C = np.full((1, 32), 9, np.uint32).view(np.float32)

    def expected(t):
        if t == 7:
            return 9
        if t % 2:
            return a[t] * 3 if t % 3 else 1000 + a[31 - t]
        return a[a[t] % 32] + 5 if t > 20 else a[t]

    assert run_bits(kernel, a, C=C)[0].tolist() == [expected(t) for t in range(32)]


def test_loops_of_different_lengths_with_break_and_continue(tmp_path):
    kernel = probe(
        tmp_path,
        """
        unsigned x = 0;
        for (unsigned i = 0; i < a[t]; ++i) {
            if (i % 5 == 3) continue;
            for (unsigned j = 0; j < i % 4; ++j) {
                if (x > 900) break;
                x += a[j] + i;
            }
            if (x % 97 == 1) break;
            x ^= i;
        }
        c[t] = x;""",
        threads=45,
    )
    a = [7 * i % 61 for i in range(45)]

    def expected(t):
        x = 0
        for i in range(a[t]):
            if i % 5 == 3:
                continue
            for j in range(i % 4):
                if x > 900:
                    break
                x += a[j] + i
            if x % 97 == 1:
                break
            x ^= i
        return x

    assert run_bits(kernel, a)[0].tolist() == [expected(t) for t in range(45)]


def test_lanes_that_parted_meet_again(tmp_path):
    """After the branch a warp is one again: the line behind it runs once per warp, not once per path."""
    kernel = probe(
        tmp_path,
        """
        float x = A[t];
        if (x > 0) { for (int i = 0; i < K; ++i) x = x * x + A[i]; }
        else if (x > -1) { for (int i = 0; i < K; ++i) x = x + A[i] * A[i + 1 - 1]; }
        else { x = A[31 - t]; }
        C[t] = x + A[0] * x;  // together""",
    )
    together = simulate(kernel, floats(1, 32), floats(32, 32)).lines[line_of(kernel, "// together")]
    assert together.by_class["fma"] == together.global_store_requests == 1
    assert together.flops == 2 * 32


def test_guards():
    """NVRTC guards branches, and none with a negation; PTX may guard anything."""
    program = parse(
        """.visible .entry f(.param .u64 f_param_0)
        {
            .reg .pred %p<3>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
            ld.param.u64 %rd1, [f_param_0];
            mov.u32 %r1, %tid.x;
            mul.wide.u32 %rd2, %r1, 4;
            add.s64 %rd3, %rd1, %rd2;
            setp.lt.u32 %p1, %r1, 5;
            mov.u32 %r2, 1;
            @%p1 add.s32 %r2, %r2, 10;
            @!%p1 add.s32 %r2, %r2, 20;
            st.global.u32 [%rd3], %r2;
            setp.eq.s32 %p2, %r1, 7;
            @%p2 ret;
            @!%p1 bra $end;
            add.s32 %r2, %r2, 100;
        $end:
            @%p1 st.global.u32 [%rd3], %r2;
            @!%p1 st.global.u32 [%rd3], 3;
            ret;
        }""",
        "f",
    )
    out = np.zeros(9, np.uint32)
    machine = Machine(program, "f", 9, {"out": out})
    machine.run(1)
    assert out.tolist() == [111] * 5 + [3, 3, 21, 3]
    assert sum(counts.global_store_requests for counts in machine.counts().values()) == 3


def test_many_blocks_in_several_batches(tmp_path):
    """More blocks than are executed together, the last batch not full."""
    kernel = probe(
        tmp_path,
        "__shared__ unsigned s[48];\ns[t] = a[t] + blockIdx.x;\n__syncthreads();\n"
        "c[blockIdx.x * 48 + t] = s[47 - t] * gridDim.x;",
        threads=48,
    )
    got, run = run_bits(kernel, range(48), columns=48 * 1500)
    expected = (np.arange(47, -1, -1) + np.arange(1500)[:, None]) * 1500
    assert got.tolist() == expected.ravel().tolist()
    assert run.total.by_class["barrier"] == 2 * 1500


def test_special_registers(tmp_path):
    kernel = probe(
        tmp_path,
        """
        unsigned lane;
        asm("mov.u32 %0, %%laneid;" : "=r"(lane));
        c[blockIdx.x * blockDim.x + t] = gridDim.x * 1000000 + blockDim.x * 10000 + blockIdx.x * 100 + lane
            + (threadIdx.y + threadIdx.z + blockIdx.y + blockIdx.z) + (gridDim.y + gridDim.z - 2)
            + (blockDim.y + blockDim.z - 2);""",
        threads=40,
    )
    assert run_bits(kernel, columns=80)[0].tolist() == [
        2 * 1000000 + 40 * 10000 + block * 100 + t % 32 for block in range(2) for t in range(40)
    ]


def test_a_block_has_at_most_1024_threads(tmp_path):
    with pytest.raises(ArgumentError, match=r"1,056 threads per block of .*, needs 1 to 1,024"):
        simulate(probe(tmp_path, "C[t] = 0;", threads=1056), floats(1, 1), floats(1, 1056))


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
