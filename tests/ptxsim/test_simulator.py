"""The machine: random programs, divergence, partial warps, and many blocks."""

import re

import numpy as np
import pytest

from ptxsim import ArgumentError
from ptxsim.machine import Machine
from ptxsim.ptx import parse

from ..examples import floats
from .cuda import line_of, probe, run_bits, simulate
from .random_programs import Program

# Random programs against Python, thread by thread.

THREADS = (32, 20, 45, 64, 70, 1, 128)


@pytest.mark.parametrize("seed", range(14))
def test_a_random_program_does_what_python_does(seed):
    threads = THREADS[seed % len(THREADS)]
    program = Program(seed, threads)
    words = np.random.default_rng(seed).integers(0, 2**32, 64).tolist()
    got, _ = run_bits(probe(program.cuda, threads), words, columns=3 * threads)
    assert got.tolist() == program.expected(words, 3)


def test_random_programs_diverge():
    """They would test little if the compiler turned all their branches into selections."""
    kernels = [probe(Program(seed, THREADS[seed]).cuda, THREADS[seed]) for seed in range(7)]
    branches = [len(re.findall(r"^\t@.* bra", kernel.compiled.ptx, re.MULTILINE)) for kernel in kernels]
    assert sorted(branches)[3] > 30


# Divergence, by hand.


def test_nested_branches_and_an_early_return():
    kernel = probe(
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


def test_loops_of_different_lengths_with_break_and_continue():
    kernel = probe(
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


def test_lanes_that_parted_meet_again():
    """After the branch a warp is one again: the line behind it runs once per warp, not once per path."""
    kernel = probe(
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


def test_many_blocks_in_several_batches():
    """More blocks than are executed together, the last batch not full."""
    kernel = probe(
        "__shared__ unsigned s[48];\ns[t] = a[t] + blockIdx.x;\n__syncthreads();\n"
        "c[blockIdx.x * 48 + t] = s[47 - t] * gridDim.x;",
        threads=48,
    )
    got, run = run_bits(kernel, range(48), columns=48 * 1500)
    expected = (np.arange(47, -1, -1) + np.arange(1500)[:, None]) * 1500
    assert got.tolist() == expected.ravel().tolist()
    assert run.total.by_class["barrier"] == 2 * 1500


def test_special_registers():
    kernel = probe(
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


def test_a_block_has_at_most_1024_threads():
    with pytest.raises(ArgumentError, match="got 1056 threads per block, needs at most 1024"):
        simulate(probe("C[t] = 0;", threads=1056), floats(1, 1), floats(1, 1056))
