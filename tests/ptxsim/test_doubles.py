"""Code for float64 and float16 that is not WMMA: loads, stores and arithmetic, and what they count."""

from fractions import Fraction

import numpy as np
import pytest

from ptxsim import SimulationFault

from .cuda import launch, line_of, probe, run_bits

DGEMM = """
template <int BM, int BN>
__global__ void dgemm(int M, int N, int K, double alpha, const double* A, const double* B, double beta, double* C)
{
    __shared__ double As[BM][BN];
    const int row = threadIdx.x / BN, col = threadIdx.x % BN;
    double acc = 0;
    for (int k0 = 0; k0 < K; k0 += BN) {
        As[row][col] = k0 + col < K ? A[row * K + k0 + col] : 0;  // stage
        __syncthreads();
        for (int k = 0; k < BN && k0 + k < K; ++k) acc += As[row][k] * B[(k0 + k) * N + col];  // multiply
        __syncthreads();
    }
    C[row * N + col] = beta == 0 ? alpha * acc : fma(alpha, acc, beta * C[row * N + col]);
}
"""


@pytest.mark.parametrize("beta", [0.0, -0.7])
def test_a_matrix_product_in_float64(beta):
    random, M, N, K, alpha = np.random.default_rng(8), 4, 16, 37, 1.1
    A, B = random.standard_normal((M, K)), random.standard_normal((K, N))
    C = random.standard_normal((M, N)) if beta else np.full((M, N), np.nan)
    before = C.copy()
    arguments = {
        "M": np.int32(M),
        "N": np.int32(N),
        "K": np.int32(K),
        "alpha": np.float64(alpha),
        "A": A,
        "B": B,
        "beta": np.float64(beta),
        "C": C,
    }
    counts = launch(DGEMM, 1, M * N, "dgemm<4, 16>", **arguments).total
    for row, col in np.ndindex(M, N):
        acc = 0.0
        for k in range(K):
            acc = float(Fraction(A[row, k]) * Fraction(B[k, col]) + Fraction(acc))
        scaled = alpha * acc
        if beta:
            scaled = float(Fraction(alpha) * Fraction(acc) + Fraction(beta * before[row, col]))
        assert C[row, col] == scaled
    assert counts.by_class["fma"] == 2 * K + 2 * bool(beta)
    assert counts.flops == M * N * (2 * K + (3 if beta else 1))
    assert counts.global_load_bytes == 8 * (M * K + M * N * K + bool(beta) * M * N)
    assert counts.global_store_sectors == 8 * M * N // 32


def test_shared_memory_in_eights():
    """Two wavefronts per warp for 32 doubles in a row; a stride of two costs four, one of sixteen all there can be."""
    body = """
        __shared__ double s[512];
        for (int i = t; i < 512; i += 32) s[i] = A[0];
        __syncthreads();
        double sum = s[t];  // row
        sum += s[2 * t];  // stride
        sum += s[16 * t];  // column
        sum += s[3];  // one
        __syncthreads();
        s[31 - t] = sum;  // store
        __syncthreads();
        C[t] = float(s[t]);"""
    kernel = probe(body)
    bits, run = run_bits(kernel, [np.float32(0.1).view(np.uint32)])
    assert bits.view(np.float32).tolist() == [float(np.float32(np.float64(np.float32(0.1)) * 4))] * 32
    found = {mark: run.lines[line_of(kernel, f"// {mark}")] for mark in ("row", "stride", "column", "one", "store")}
    assert [found[mark].shared_load_wavefronts for mark in ("row", "stride", "column", "one")] == [2, 4, 32, 1]
    assert found["store"].shared_store_wavefronts == 2
    assert found["row"].shared_load_bytes == 256


def test_faults_of_eight_bytes():
    here = "const double* d = reinterpret_cast<const double*>(A);\nC[t] = float(d[{}]);  // here"
    with pytest.raises(SimulationFault, match=r"out of bounds.*thread 16: a 8-byte access to A \(128 bytes\)"):
        run_bits(probe(here.format("t")), range(32))
    odd = "reinterpret_cast<const double*>(A + t)"
    with pytest.raises(SimulationFault, match=r"misaligned.*thread 1: a 8-byte access"):
        run_bits(probe(here.format(0).replace("reinterpret_cast<const double*>(A)", odd)), range(64))


HALF = "#include <cuda_fp16.h>\n"


def test_halves():
    """Conversions, which the headers write as inline assembly, loads and stores of two bytes and of eight at once."""
    kernel = probe(
        """
        __shared__ __align__(16) half s[256];
        const half* h = reinterpret_cast<const half*>(A);
        *reinterpret_cast<int4*>(s + 8 * t) = reinterpret_cast<const int4*>(A)[t];
        __syncwarp();
        const float x = __half2float(s[8 * t + 3]) * __half2float(h[t]);
        reinterpret_cast<half*>(C)[2 * t] = __float2half(x);
        reinterpret_cast<half*>(C)[2 * t + 1] = s[t];""",
        before=HALF,
    )
    numbers = np.random.default_rng(9).standard_normal(256).astype(np.float16)
    bits, run = run_bits(kernel, numbers.view(np.uint32).tolist())
    got = bits.view(np.float16).reshape(32, 2)
    products = numbers[3::8].astype(np.float32) * numbers[:32].astype(np.float32)
    assert got[:, 0].tolist() == products.astype(np.float16).tolist()
    assert got[:, 1].tolist() == numbers[:32].tolist()
    assert run.total.global_load_bytes == 512 + 64
    assert run.total.shared_store_bytes == 512


def test_registers_in_parts():
    kernel = probe(
        """
        unsigned short low, high;
        unsigned whole, upper, lower;
        unsigned long long wide;
        asm("mov.b32 {%0, %1}, %2;" : "=h"(low), "=h"(high) : "r"(a[t]));
        asm("mov.b32 %0, {%1, %2};" : "=r"(whole) : "h"(high), "h"(low));
        asm("mov.b64 %0, {%1, %2};" : "=l"(wide) : "r"(whole), "r"(7));
        asm("mov.b64 {%0, %1}, %2;" : "=r"(lower), "=r"(upper) : "l"(wide + 1));
        c[t] = lower * upper + (low == high);""",
    )
    a = [0x12345678 + 0x01010003 * i for i in range(31)] + [0x55555555]
    swapped = [(x >> 16 | x << 16) & 0xFFFFFFFF for x in a]
    expected = [((x + 1) * 7 + (x >> 16 == x & 0xFFFF)) & 0xFFFFFFFF for x in swapped]
    assert run_bits(kernel, a)[0].tolist() == expected
