"""Blocks and grids of two and three dimensions: their indices, their warps, and their names in messages."""

import itertools

import numpy as np
import pytest

from .cuda import fault, launch

PLACES = """
__global__ void places(int* out) {
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    int* mine = out + 7 * (block * blockDim.x * blockDim.y * blockDim.z + thread);
    mine[0] = blockIdx.x; mine[1] = blockIdx.y; mine[2] = blockIdx.z;
    mine[3] = threadIdx.x; mine[4] = threadIdx.y; mine[5] = threadIdx.z;
    int lane; asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    mine[6] = lane;
}"""


@pytest.mark.parametrize("grid, block", [((3,), (5,)), ((3, 2), (4, 8)), ((2, 3, 4), (5, 3, 2)), ((1, 1, 5), (1, 7))])
def test_every_thread_knows_its_place(grid, block):
    shapes = [(*of, 1, 1)[:3] for of in (grid, block)]
    out = np.full((np.prod(grid), np.prod(block), 7), -1, np.int32)
    run = launch(PLACES, grid, block, out=out)
    assert (run.grid, run.block) == tuple(shapes)
    blocks, threads = ([of[::-1] for of in itertools.product(*map(range, shape[::-1]))] for shape in shapes)
    for b, t in itertools.product(range(len(blocks)), range(len(threads))):
        assert out[b, t].tolist() == [*blocks[b], *threads[t], t % 32]


def test_a_warp_is_made_of_threads_along_x_first():
    """8 × 8 threads that read a row each: a warp of four rows touches four sectors, one of columns would take 8."""
    source = "__global__ void k(float* a) { a[threadIdx.y * 64 + threadIdx.x] += 1; }"
    run = launch(source, 1, (8, 8), a=np.zeros(512, np.float32))
    assert (run.total.global_load_requests, run.total.global_load_sectors) == (2, 8)


@pytest.mark.parametrize(
    ("grid", "block", "where"),
    [
        (3, 4, "block 1, thread 2"),
        ((3, 2), 4, "block (1, 0), thread 2"),
        (3, (2, 2), "block 1, thread (0, 1)"),
        ((1, 3), (2, 1, 2), "block (0, 1), thread (0, 0, 1)"),
        ((1, 1, 3), (2, 2), "block (0, 0, 1), thread (0, 1)"),
    ],
)
def test_a_fault_names_block_and_thread_by_the_dimensions_in_use(grid, block, where):
    source = """__global__ void k(float* a) {
    int b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    a[b * 4 + t] = 1;
}"""
    found = fault(source, grid, block, a=np.zeros(6, np.float32))
    assert f"out of bounds: k, line 4, {where}: a 4-byte access" in str(found).replace("_Z1kPf", "k")
    assert (found.line, found.block, found.thread) == (4, 1, 2)


def test_other_threads_have_names_as_well():
    race = """__global__ void k(int* a) {
    __shared__ int s[64];
    s[threadIdx.y * 8 + threadIdx.x] = threadIdx.x;
    a[threadIdx.y * 8 + threadIdx.x] = s[63 - threadIdx.y * 8 - threadIdx.x];
}"""
    a = np.zeros(64, np.int32)
    assert "thread (0, 0): reads s at byte 252, which thread (7, 7) wrote" in str(fault(race, (1, 2), (8, 8), a=a))
    barrier = "__global__ void k(int* a) { if (threadIdx.y) __syncthreads(); a[0] = 1; }"
    found = str(fault(barrier, 1, (8, 8), a=a))
    assert "thread (0, 1): waits at a barrier that thread (0, 0) of its block never reaches" in found
