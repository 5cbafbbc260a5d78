"""wgmma on the simulator: products of tiles however they lie, and every way to touch something too early."""

import numpy as np
import pytest

import ptxsim
from ptxsim import SimulationFault, UnsupportedInstruction
from ptxsim.machine import Machine
from ptxsim.ptx import parse
from ptxsim.tensor import multiply_accumulate
from ptxsim.tensor_map import TensorMap

from .test_mbarriers import HELPERS
from .test_tma import COPY

ORDER = """
__device__ void order() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ void finish() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory"); }
__device__ unsigned long long describe(const void* tile, unsigned leading, unsigned stride)
{
    return (unsigned long long)(at(tile) >> 4) | (unsigned long long)(leading >> 4) << 16
         | (unsigned long long)(stride >> 4) << 32 | 1ull << 62;
}
"""


def multiply(columns, registers=False, majors=(0, 1), kind="f16", sums="f32"):
    """Return a function of CUDA that adds a product of 64 × 16 and 16 × columns."""
    count, held, letter = (columns // 2, "float", "f") if sums == "f32" else (columns // 4, "unsigned", "r")
    d = ", ".join(f"%{i}" for i in range(count))
    a = f"{{%{count}, %{count + 1}, %{count + 2}, %{count + 3}}}" if registers else f"%{count}"
    b = count + (4 if registers else 1)
    outputs = ", ".join(f'"+{letter}"(d[{i}])' for i in range(count))
    inputs = ", ".join(f'"r"(a[{i}])' for i in range(4)) if registers else '"l"(a)'
    transposed = ", ".join(map(str, majors[registers:]))
    return f"""
__device__ void multiply({held} (&d)[{count}], {"unsigned (&a)[4]" if registers else "unsigned long long a"},
                         unsigned long long b, bool add = true)
{{
    asm volatile("{{ .reg .pred %%add; setp.ne.b32 %%add, %{b + 1}, 0; "  // multiply
                 "wgmma.mma_async.sync.aligned.m64n{columns}k16.{sums}.{kind}.{kind} "
                 "{{{d}}}, {a}, %{b}, %%add, 1, 1, {transposed}; }}"
                 : {outputs} : {inputs}, "l"(b), "r"(int(add)));
}}
"""


BEGIN = """
    constexpr int N = {columns};
    __shared__ __align__(1024) unsigned short a[64 * 64], b[64 * N];
    __shared__ unsigned long long full;
    const unsigned t = threadIdx.x;
    if (t == 0) {{ init(&full, 1); fence(); }}
    __syncthreads();
    if (t == 0) {{
        arrive_expect(&full, sizeof a + sizeof b);
        copy(a, mapA, 0, 0, &full);
        for (int n = 0; n < N / 64; ++n) copy(b + n * 4096, mapB, {corner}, &full);
    }}
    float d[N / 2] = {{}};
    wait(&full, 0);
"""
STEPS = """
    order();
    for (int k = 0; k < 4; ++k) multiply(d, {a}, {b}{more});
    commit();
    finish<0>();
"""
STORE = """
    for (int i = 0; i < N / 2; ++i)
        c[(t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8) * N + i / 4 * 8 + t % 4 * 2 + i % 2] = d[i];
"""
A = {0: "describe(a + k * 16, 16, 1024)", 1: "describe(a + k * 1024, 8192, 1024)"}
B = {0: "describe(b + k * 16, 16, 1024)", 1: "describe(b + k * 1024, 8192, 1024)"}


def run(body, left, right, functions=None, majors=(0, 1), columns=None, threads=128, after=STORE):
    """Run a body on A (64 × 64) and B (64 × columns), stored transposed where their rows are not to be contiguous."""
    columns = columns or right.shape[1]
    begin = BEGIN.format(columns=columns, corner="64 * n, 0" if majors[1] else "0, 64 * n")
    text = f"""{HELPERS}{COPY}{ORDER}{functions or multiply(columns, majors=majors)}
__global__ void probe(const unsigned short* A, const unsigned short* B, float* c,
                      const __grid_constant__ TensorMap mapA, const __grid_constant__ TensorMap mapB)
{{{begin}{body}{after}
}}
"""
    binary = ptxsim.compile(text, architecture="compute_90a")
    left = np.ascontiguousarray(left.T if majors[0] else left)
    right = np.ascontiguousarray(right if majors[1] else right.T)
    c = np.full((64, columns), np.nan, np.float32)
    maps = {"mapA": TensorMap(left, 64, 64), "mapB": TensorMap(right, 64 if majors[1] else min(columns, 64), 64)}
    machine = Machine(
        parse(binary.ptx, binary.entry, 0), "probe", threads, {"A": left, "B": right, "c": c} | maps, fresh=("c",)
    )
    machine.run(1)
    return c, machine


def operands(columns, dtype=np.float16):
    random = np.random.default_rng(columns)
    return random.standard_normal((64, 64)).astype(dtype), random.standard_normal((64, columns)).astype(dtype)


def product(left, right, before=None):
    """The sums as tensor cores make them, 16 of the depth at a time."""
    sums = np.zeros((1, 64, right.shape[1]), np.float32) if before is None else before[None]
    for k in range(0, 64, 16):
        sums = multiply_accumulate(left[None, :, k : k + 16], right[None, k : k + 16], sums)
    return sums[0]


@pytest.mark.parametrize("majors", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_tiles_of_all_kinds(majors):
    left, right = operands(64)
    got, machine = run(STEPS.format(a=A[majors[0]], b=B[majors[1]], more=""), left, right, majors=majors)
    assert np.array_equal(got, product(left, right))
    counts = sum(machine.counts().values(), type(next(iter(machine.counts().values())))())
    assert counts.by_class["tensor"] == 4 * 4 and counts.flops == 2 * 64 * 64 * 64


@pytest.mark.parametrize("columns", [128, 256])
def test_wide_tiles(columns):
    """Past 64 columns there is another box, the leading offset behind the first."""
    left, right = operands(columns)
    got, _ = run(STEPS.format(a=A[0], b=B[1], more=""), left, right)
    assert np.array_equal(got, product(left, right))


def test_bf16():
    left, right = operands(64, np.float32)
    cut = [(matrix.view(np.uint32) >> 16).astype(np.uint16) for matrix in (left, right)]
    exact = [(matrix.astype(np.uint32) << 16).view(np.float32) for matrix in cut]
    got, _ = run(STEPS.format(a=A[0], b=B[1], more=""), *cut, multiply(64, kind="bf16"))
    assert np.array_equal(got, product(*exact))


IN_FP16 = """
    for (int i = 0; i < N / 4; ++i)
        asm("{ .reg .b16 %%low, %%high; mov.b32 {%%low, %%high}, %2; cvt.f32.f16 %0, %%low; cvt.f32.f16 %1, %%high; }"
            : "=f"(d[2 * i]), "=f"(d[2 * i + 1]) : "r"(h[i]));
"""


@pytest.mark.parametrize("columns", [64, 128])
@pytest.mark.parametrize("in_registers", [False, True])
def test_sums_in_fp16(in_registers, columns):
    """Each product of depth 16 is rounded to float16, and columns 2j and 2j + 1 of a row are one register."""
    left, right = operands(columns)
    before = np.random.default_rng(7).standard_normal((64, columns)).astype(np.float16)
    bits = ", ".join(map(str, before.view(np.uint16).ravel()))
    row = "t / 32 * 16 + t % 32 / 4 + i % 2 * 8"
    body = f"""
    static __device__ const unsigned short before[] = {{{bits}}};
    unsigned h[N / 4] = {{}};
    for (int i = 0; i < N / 4; ++i)
        for (int j = 1; j >= 0; --j) h[i] = h[i] << 16 | before[({row}) * N + i / 2 * 8 + t % 4 * 2 + j];
    """
    steps = STEPS.format(a="f[k]" if in_registers else A[0], b=B[1], more="").replace("multiply(d,", "multiply(h,")
    got, machine = run(
        FRAGMENT * in_registers + body + steps + IN_FP16, left, right, multiply(columns, in_registers, sums="f16")
    )
    sums = before
    for k in range(0, 64, 16):
        wide = multiply_accumulate(left[None, :, k : k + 16], right[None, k : k + 16], sums[None].astype(np.float32))
        sums = wide[0].astype(np.float16)
    assert np.array_equal(got, sums.astype(np.float32))
    assert sum(count.flops for count in machine.counts().values()) == 2 * 64 * columns * 64


def test_sums_in_fp16_of_other_factors():
    """PTX has none of BF16, and NVRTC knows."""
    body = "unsigned h[N / 4] = {};" + STEPS.format(a=A[0], b=B[1], more="").replace("multiply(d,", "multiply(h,")
    with pytest.raises((UnsupportedInstruction, ptxsim.CompileError)):
        run(body + IN_FP16, *operands(64), multiply(64, kind="bf16", sums="f16"))


FRAGMENT = """
    unsigned f[4][4];
    for (int k = 0; k < 4; ++k)
        for (int i = 0; i < 4; ++i) {
            const int row = t / 32 * 16 + t % 32 / 4 + i % 2 * 8, column = k * 16 + i / 2 * 8 + t % 4 * 2;
            f[k][i] = *reinterpret_cast<const unsigned*>(A + row * 64 + column);
        }
"""


def test_a_in_registers():
    left, right = operands(64)
    body = FRAGMENT + STEPS.format(a="f[k]", b=B[1], more="")
    got, _ = run(body, left, right, multiply(64, registers=True))
    assert np.array_equal(got, product(left, right))


TF32 = """
__device__ void multiply(float (&d)[32], unsigned (&a)[4], unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {OUTS}, {%32, %33, %34, %35}, %36, 1, 1, 1MORE;"
                 : SUMS : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ void multiply(float (&d)[32], unsigned long long a, unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {OUTS}, %32, %33, 1, 1, 1;"
                 : SUMS : "l"(a), "l"(b));
}
"""
TF32 = TF32.replace("OUTS", ", ".join(f"%{i}" for i in range(32)))
TF32 = TF32.replace("SUMS", ", ".join(f'"+f"(d[{i}])' for i in range(32)))
FLOATS = """
    const float* of = reinterpret_cast<const float*>(A);
    unsigned f[4][4];
    for (int k = 0; k < 4; ++k)
        for (int i = 0; i < 4; ++i) {
            const int row = t / 32 * 16 + t % 32 / 4 + i % 2 * 8, column = k * 8 + i / 2 * 4 + t % 4;
            f[k][i] = __float_as_uint(of[row * 32 + column]);
        }
"""


@pytest.mark.parametrize("in_registers", [False, True])
def test_tf32(in_registers):
    """Rows of 32 floats are 128 bytes as those of 64 halves are; what TF32 lacks is cut off."""
    random = np.random.default_rng(8)
    left, right = (random.standard_normal((64, 32), np.float32) for _ in "ab")
    body = FLOATS * in_registers + STEPS.format(a="f[k]" if in_registers else A[0], b=B[0], more="")
    as_halves = [matrix.view(np.uint16) for matrix in (left, right)]
    got, machine = run(body, as_halves[0], as_halves[1].T, TF32.replace("MORE", ""), majors=(0, 0))
    cut = [(matrix.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for matrix in (left, right)]
    sums = np.zeros((1, 64, 64), np.float32)
    for k in range(0, 32, 8):
        sums = multiply_accumulate(cut[0][None, :, k : k + 8], cut[1].T[None, k : k + 8], sums)
    assert np.array_equal(got, sums[0])
    assert sum(count.flops for count in machine.counts().values()) == 2 * 64 * 64 * 32


def test_tf32_cannot_be_transposed():
    body = FLOATS + STEPS.format(a="f[k]", b=B[0], more="")
    with pytest.raises(UnsupportedInstruction, match="does not know"):
        run(body, *operands(64), TF32.replace("MORE", ", 0"), majors=(0, 0))


def test_factors_that_are_touched_too_early():
    touch = 'commit(); asm volatile("add.u32 %0, %0, 1;" : "+r"(f[2][1]));'
    body = FRAGMENT + STEPS.format(a="f[k]", b=B[1], more="").replace("commit();", touch)
    with pytest.raises(SimulationFault, match="a register of the wgmma of line") as caught:
        run(body, *operands(64), multiply(64, registers=True))
    assert caught.value.kind == "in flight"


@pytest.mark.parametrize("first", ["true", "k > 0"])
def test_sums_that_begin_anew(first):
    """Without adding, what the registers held is of no account, not even a NaN."""
    left, right = operands(64)
    body = "for (int i = 0; i < N / 2; ++i) d[i] = __int_as_float(0x7fc00000 + t);"
    got, _ = run(body + STEPS.format(a=A[0], b=B[1], more=", " + first), left, right)
    assert np.isnan(got).all() if first == "true" else np.array_equal(got, product(left, right))


def test_groups_that_overlap():
    """A wait for all but the last leaves that one's registers alone in flight."""
    left, right = operands(64)
    body = """
    float e[N / 2] = {};
    order();
    for (int k = 0; k < 4; ++k) multiply(d, describe(a + k * 16, 16, 1024), describe(b + k * 1024, 8192, 1024));
    commit();
    for (int k = 0; k < 4; ++k) multiply(e, describe(a + k * 16, 16, 1024), describe(b + k * 1024, 8192, 1024));
    commit();
    finish<1>();
"""
    both = (
        "\n    finish<0>();\n    for (int i = 0; i < N / 2; ++i) if (e[i] != d[i]) c[0] = __int_as_float(0x7fc00000);"
    )
    got, _ = run(body, left, right, after=STORE + both)
    assert np.array_equal(got, product(left, right))


GOOD = STEPS.format(a=A[0], b=B[1], more="")
WRONG = {
    "no wait": ("finish<0>();", "", "in flight", "not waited for"),
    "a wait for too little": ("finish<0>();", "finish<1>();", "in flight", "not waited for"),
    "sums set too late": (
        "commit();",
        'commit(); asm volatile("mov.f32 %0, 0f40A00000;" : "+f"(d[3]));',
        "in flight",
        "something writes",
    ),
    "sums packed too early": (
        "commit();",
        'commit(); unsigned long long both; asm volatile("mov.b64 %0, {%1, %2};" : "=l"(both) : "f"(d[3]), "f"(d[4]));',
        "in flight",
        "a register of the wgmma",
    ),
    "no fence": ("order();", "", "in flight", "wgmma.fence"),
    "too few lanes": ("multiply(", "if (t != 77) multiply(", "divergence", "without all of its warp"),
    "lanes that differ": ("a + k * 16,", "a + k * 16 + t / 64 * (t % 2) * 512,", "divergence", "another descriptor"),
    "past the end": ("b + k * 1024,", "b + k * 1024 + 4096,", "out of bounds", "shared memory"),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_faults(change):
    old, new, kind, words = change
    with pytest.raises(SimulationFault) as caught:
        run(GOOD.replace(old, new), *operands(64))
    assert caught.value.kind == kind and words in str(caught.value), caught.value


def test_a_tile_that_was_not_waited_for(monkeypatch):
    monkeypatch.setitem(globals(), "BEGIN", BEGIN.replace("    wait(&full, 0);\n", "    if (t < 64) wait(&full, 0);\n"))
    with pytest.raises(SimulationFault) as caught:
        run(GOOD, *operands(64))
    assert (caught.value.kind, caught.value.thread) == ("in flight", 64)


STORED = "for (int i = t; i < 4096; i += 128) a[i] = A[i]; FENCE __syncthreads();" + GOOD


def test_what_threads_store_takes_a_fence():
    left, right = operands(64)
    with pytest.raises(SimulationFault, match="thread 7 wrote without a fence") as caught:
        run(STORED.replace("FENCE", ""), left, right)
    assert caught.value.kind == "proxy"
    got, _ = run(STORED.replace("FENCE", "fence();"), left, right)
    chunks = left.reshape(64, 8, 8)
    lying = np.stack([chunks[r, [c ^ r % 8 for c in range(8)]] for r in range(64)]).reshape(64, 64)
    assert np.array_equal(got, product(lying, right))  # stored as it was, it is read as if swizzled


def test_what_threads_store_takes_a_barrier_too():
    body = STORED.replace("FENCE", "fence();").replace("__syncthreads();", "")
    with pytest.raises(SimulationFault) as caught:
        run(body, *operands(64))
    assert caught.value.kind == "race"


HANDED = """
    __shared__ unsigned long long told, done;
    if (t == 0) { init(&told, 64); init(&done, 2); }
    __syncthreads();
    for (int round = 0; round < 2; ++round) {
        if (t >= 64) {
            if (round) wait(&done, 0);
            for (int i = t - 64; i < 4096; i += 64) a[i] = A[i];
            fence();
            arrive(&told);
        }
        else {
            wait(&told, round);
            if (t % 32 == 0) d[0] += __uint_as_float(a[5 * t]);
            if (t % 32 == 0) arrive(&done);
        }
    }
"""


def test_what_threads_hand_to_others_by_mbarriers():
    """Threads that have waited may read it, and it may be written anew when they have told so."""
    left, right = operands(64)
    got, _ = run(HANDED, left, right)
    assert got.view(np.uint32)[0, 0] == 2 * left.view(np.uint16)[0, 0].astype(np.uint32)


@pytest.mark.parametrize(
    "change",
    [("wait(&told, round);", ""), ("if (round) wait(&done, 0);", ""), ("init(&told, 64)", "init(&told, 128)")],
    ids=["read too early", "written too early", "never told"],
)
def test_what_is_handed_over_without_waiting(change):
    with pytest.raises(SimulationFault) as caught:
        run(HANDED.replace(*change), *operands(64))
    assert caught.value.kind == ("deadlock" if "128" in change[1] else "race"), caught.value


@pytest.mark.parametrize(
    ("told", "read", "fine"),
    [("", "t", True), ("", "t + 1", False), ("__syncwarp();", "t + 1", True)],
    ids=["its own", "another's", "another's, after they have met"],
)
def test_what_one_lane_tells_of(told, read, fine):
    """It tells of its own stores, and of its warp's until the warp last met."""
    body = HANDED.replace("init(&told, 64)", "init(&told, 2)").replace("a[5 * t]", f"a[{read}]")
    body = body.replace("arrive(&told);", f"{told} if (t % 32 == 0) arrive(&told);")
    if fine:
        run(body, *operands(64))
        return
    with pytest.raises(SimulationFault, match="which thread 65 wrote") as caught:
        run(body, *operands(64))
    assert caught.value.kind == "race"


REFILL = GOOD.replace(
    "finish<0>();",
    "BEFORE if (t == 0) { arrive_expect(&full, 8192); copy(a, mapA, 0, 0, &full); } finish<0>();",
)


@pytest.mark.parametrize("before", ["", "__syncthreads();"])
def test_a_tile_refilled_while_it_is_read(before):
    """A barrier does not help, as what is asynchronous has not been waited for."""
    with pytest.raises(SimulationFault, match="may still read") as caught:
        run(REFILL.replace("BEFORE", before), *operands(64))
    assert caught.value.kind == "race"


def test_a_tile_refilled_in_time():
    got, _ = run(REFILL.replace("BEFORE", "finish<0>(); __syncthreads();"), *operands(64))
    assert np.array_equal(got, product(*operands(64)))


@pytest.mark.parametrize("other", ["2ull << 62", "0", "1ull << 62 | 1ull << 49"])
def test_layouts_that_no_kernel_uses(other, monkeypatch):
    monkeypatch.setitem(globals(), "ORDER", ORDER.replace("| 1ull << 62", "| " + other))
    with pytest.raises(UnsupportedInstruction, match="does not know"):
        run(GOOD, *operands(64))
