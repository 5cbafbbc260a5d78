"""The simulator as a sanitizer: each fault is found and placed, and correct kernels raise no alarm."""

import copy
import re

import numpy as np
import pytest

from ptxsim import SimulationFault, memory
from ptxsim.memory import INTERVAL, GlobalMemory, SharedMemory, Violation

from ..examples import floats
from .cuda import fault as launched_fault
from .cuda import launch, line_of, probe, run_bits, simulate


def fault(kernel, *, M=1, columns=None, depth=64, **more):
    """Run a kernel that must fail and return the fault; its line must be the one marked "here"."""
    with pytest.raises(SimulationFault) as caught:
        simulate(kernel, floats(M, depth), floats(depth, columns or kernel.threads), **more)
    found = caught.value
    assert found.kernel == kernel.name
    assert found.line == line_of(kernel, "// here")
    assert str(found).startswith(
        f"{found.kind}: {found.kernel}, line {found.line}, block {found.block}, thread {found.thread}: "
    )
    return found


def address_in(found):
    return int(re.search(r"address (0x[0-9a-f]+)", str(found))[1], 16)


# Global memory. A is 1 × 64, B is 64 × N, C is 1 × N; blocks of 32 threads take 32 columns each.

ME = "const int me = blockIdx.x * 32 + t;\n"


@pytest.mark.parametrize(
    ("body", "block", "thread", "array", "where"),
    [
        ("C[me] = A[me];  // here", 2, 0, "A (256 bytes)", "0 bytes past its end"),
        ("C[me] = A[me + 3];  // here", 1, 29, "A (256 bytes)", "0 bytes past its end"),
        ("C[me] = A[me - 2];  // here", 0, 0, "A (256 bytes)", "8 bytes before its start"),
        ("C[me] = B[me + 64 * 96 - 90];  // here", 2, 26, "B (24,576 bytes)", "0 bytes past its end"),
        ("C[me + 1] = 0;  // here", 2, 31, "C (384 bytes)", "0 bytes past its end"),
        ("C[me - 5] = 0;  // here", 0, 0, "C (384 bytes)", "20 bytes before its start"),
        ("C[me] = A[t == 7 ? 1000000 : 0];  // here", 0, 7, "A (256 bytes)", "3999744 bytes past its end"),
        ("if (t > 8) C[me] = A[t == 9 ? -1 : 1];  // here", 0, 9, "A (256 bytes)", "4 bytes before its start"),
    ],
)
def test_out_of_bounds(body, block, thread, array, where):
    found = fault(probe(ME + body), columns=96)
    assert (found.kind, found.block, found.thread) == ("out of bounds", block, thread)
    assert array in str(found)
    assert where in str(found)
    assert "4-byte access" in str(found)
    base = {"A": 1, "B": 2, "C": 3}[array[0]] << 40
    size = int(array.partition("(")[2].partition(" ")[0].replace(",", ""))
    offset = int(where.split()[0])
    assert address_in(found) == (base - offset if "before" in where else base + size + offset)


def test_out_of_bounds_in_no_array():
    found = fault(probe("C[t] = A[t + (size_t(1) << 42)];  // here"))
    assert (found.kind, found.thread) == ("out of bounds", 0)
    assert "in no array" in str(found)


def test_out_of_bounds_across_the_end():
    kernel = probe(
        "if (t < 3) return;\nconst float4 x = reinterpret_cast<const float4*>(C)[1];  // here\n"
        "C[t] = x.x + x.y + x.z + x.w;",
        threads=7,
    )
    found = fault(kernel, C=floats(1, 7))
    assert (found.kind, found.thread) == ("out of bounds", 3)
    assert "C (28 bytes), across its end" in str(found)


def test_the_first_row_of_threads_past_an_empty_matrix():
    kernel = probe("C[t] = A[t];  // here")
    with pytest.raises(SimulationFault, match=r"out of bounds.*A \(0 bytes\), 0 bytes past its end"):
        simulate(kernel, floats(1, 0), floats(0, 32))


@pytest.mark.parametrize(
    ("body", "width", "array", "byte"),
    [
        ("const float4 x = *reinterpret_cast<const float4*>(A + 3 * t);  // here\nC[t] = x.x + x.w;", 16, "A", 12),
        ("const float2 x = *reinterpret_cast<const float2*>(A + t);  // here\nC[t] = x.x + x.y;", 8, "A", 4),
        ("*reinterpret_cast<float4*>(C + (t & 16) + (t == 1)) = make_float4(1, 2, 3, 4);  // here", 16, "C", 4),
    ],
)
def test_misaligned(body, width, array, byte):
    found = fault(probe(body), depth=128)
    assert (found.kind, found.block, found.thread) == ("misaligned", 0, 1)
    assert f"a {width}-byte access at address" in str(found)
    assert address_in(found) % width
    assert found.detail.endswith(f", {array} at byte {byte}")


def test_misaligned_in_shared_memory():
    found = fault(
        probe(
            """
        __shared__ float s[64];
        s[t] = s[t + 32] = 0;
        __syncthreads();
        const float4 x = *reinterpret_cast<const float4*>(s + 3 * (t % 2));  // here
        C[t] = x.x + x.w;""",
        )
    )
    assert (found.kind, found.thread) == ("misaligned", 1)
    assert found.detail == "a 16-byte access at address 0xc, s at byte 12"


@pytest.mark.parametrize("body", ["A[t] = 1;", "atomicAdd(A + t, 1.f);", "(t < 7 ? B : A)[t] = 1;"])
def test_a_read_only_array(body):
    source = f"__global__ void k(float* A, float* B) {{ int t = threadIdx.x;\n{body} }}"
    A, B = floats(32), floats(32)
    A.flags.writeable = False
    with pytest.raises(
        SimulationFault, match=r"read-only: k, line 2, .*writes A, a NumPy array that is read-only"
    ) as caught:
        launch(source, 1, 32, A=A, B=B)
    assert caught.value.thread == (7 if "7" in body else 0)
    launch(source.replace(body, "B[t] = A[t];"), 1, 32, A=A, B=B)
    assert np.array_equal(A, B)


def test_a_view_keeps_its_alignment():
    """A row that starts off a 16-byte boundary faults under float4 here as it does on a GPU."""
    kernel = probe("const float4 x = reinterpret_cast<const float4*>(A)[t];  // here\nC[t] = x.x + x.y + x.z + x.w;")
    padded, B = floats(3, 128), floats(128, 32)
    x, y, z, w = padded[1].reshape(32, 4).T
    assert simulate(kernel, padded[1:2], B).C.tolist() == [(x + y + z + w).tolist()]
    odd = floats(1 + 128)
    with pytest.raises(SimulationFault, match=f"misaligned.*line {line_of(kernel, 'here')}, block 0, thread 0"):
        simulate(kernel, odd[1:].reshape(1, 128), B)
    sectors = [
        simulate(probe("C[t] = A[t];"), odd[skip : skip + 128].reshape(1, 128), B).total.global_load_sectors
        for skip in (0, 1)
    ]
    assert sectors == [4, 5]


def test_words_of_an_array_that_begins_between_two():
    memory = GlobalMemory()
    halves = np.arange(9, dtype=np.uint16)[1:]
    address = np.array([memory.add("A", halves) + 2], np.uint64)
    assert memory.load(address, np.dtype(np.uint32), 1)[0].tolist() == [3 << 16 | 2]
    memory.store(address, [np.array([7 << 16 | 6], np.uint32)])
    assert halves.tolist() == [1, 6, 7, 4, 5, 6, 7, 8]


def test_a_new_c_holds_nothing():
    kernel = probe(ME + "if (t != 5) C[me] = 1;\nC[me] += A[0];  // here")
    found = fault(kernel, columns=64)
    assert (found.kind, found.block, found.thread) == ("uninitialised", 0, 5)
    assert "reads C at byte 20" in str(found)
    run = simulate(kernel, np.ones((1, 64), np.float32), floats(64, 64), np.zeros((1, 64), np.float32))
    assert run.C.tolist() == [([2.0] * 5 + [1.0] + [2.0] * 26) * 2]


def test_what_a_thread_left_out_stays_nan():
    kernel = probe("if (t % 2) C[t] = 1;")
    assert np.isnan(simulate(kernel, floats(1, 1), floats(1, 32)).C[0]).tolist() == [True, False] * 16


@pytest.mark.parametrize(
    ("type_", "value", "size"),
    [("double", "t", 8), ("float4", "make_float4(t, t, t, t)", 16), ("ulonglong2", "make_ulonglong2(t, t)", 16)],
)
def test_wide_elements_of_a_new_array_are_written_whole(type_, value, size):
    """Every word of them counts as written."""
    source = f"""__global__ void k({type_}* fresh, {type_}* o) {{
    int t = threadIdx.x;
    fresh[t] = {value};
    __syncthreads();
    o[t] = fresh[31 - t];
}}"""
    fresh, out = np.zeros((32, size), np.uint8), np.zeros((32, size), np.uint8)
    launch(source, 1, 32, fresh=fresh, o=out, _fresh=["fresh"])
    assert fresh[1:].any(axis=1).all() and np.array_equal(out, fresh[::-1])


STRUCTS = {
    "a double and an int": ("double key; int t;", "key"),
    "a char and a float": ("char t; float key;", "key"),
    "a float, a flag and a float": ("float key; bool flag; float more;", "key"),
    "a long, a short and an alignment": ("alignas(16) long long key; short t;", "key"),
    "three chars and an alignment": ("alignas(4) char key; char t, u;", "key"),
    "a struct and an int": ("struct { double key; char t; } of; int t;", "of.key"),
}


@pytest.mark.parametrize(("members", "key"), STRUCTS.values(), ids=STRUCTS)
def test_a_structs_padding_may_be_copied(members, key):
    """Whole structs are moved about in shared memory, and by way of a new array; nothing has written what is between
    their members."""
    source = f"""
struct One {{ {members} }};
__global__ void k(One* fresh, float* o) {{
    __shared__ One s[32];
    int t = threadIdx.x;
    s[t].{key} = t * 7 % 32;
    __syncthreads();
    for (int d = 16; d; d /= 2) {{
        if (t < d && s[t + d].{key} > s[t].{key}) s[t] = s[t + d];
        __syncthreads();
    }}
    fresh[t] = s[0];
    __syncthreads();
    One mine = fresh[31 - t];
    fresh[32 + t] = mine;
    o[t] = mine.{key};
}}"""
    for member in ("of.t", "t", "u", "flag", "more"):
        if re.search(rf"\b{member}\b", members.replace("t; } of", "} of.t")):
            source = source.replace("% 32;", f"% 32;\n    s[t].{member} = 1;", 1)
    out = np.zeros(32, np.float32)
    launch(source, 1, 32, fresh=np.zeros(64 * 32, np.uint8), o=out, _fresh=["fresh"])
    assert out.tolist() == [31] * 32


def test_a_structs_padding_may_be_copied_in_local_memory():
    source = """
struct One { double key; int t; };
__global__ void k(const int* x, float* o, int n) {
    One mine[4];
    for (int i = 0; i < n; ++i) mine[(i + x[0]) & 3].key = mine[(i + x[0]) & 3].t = i;
    for (int i = 0; i < n; ++i) if (mine[i].key < 3) mine[i] = mine[x[i] & 3];
    o[0] = mine[x[1]].key + 10 * mine[x[2]].t;
}"""
    x, out = np.arange(4, dtype=np.int32), np.zeros(1, np.float32)
    launch(source, 1, 1, x=x, o=out, n=4)
    assert out.tolist() == [21]


@pytest.mark.parametrize(("type_", "unwritten"), [("float4", 3), ("int4", 4), ("uchar4", 4), ("double", 2), ("int", 1)])
def test_what_is_no_structs_padding_may_not_be_read_unwritten(type_, unwritten):
    """None of four floats may be missing; of integers, which copies of structs use, not all may, where they count."""
    source = f"""__global__ void k(int* o) {{
    __shared__ __align__(16) {"unsigned char" if type_ == "uchar4" else "int"} s[256];
    int t = threadIdx.x;
    if (t % 4 < 4 - {unwritten}) s[t] = t;
    __syncthreads();
    {type_} v = *reinterpret_cast<{type_}*>(&s[4 * t]);
    o[t] = {"v.x + v.y + v.z + v.w" if type_[-1] == "4" else "v"};
}}"""
    found = launched_fault(source, 1, 32, o=np.zeros(32, np.int32))
    assert (found.kind, found.line) == ("uninitialised", 6)


def test_half_of_a_number_that_the_compiler_leaves_open():
    """The compiler packs one member of a struct given by value with a register that nothing writes."""
    source = """
struct View {
    const float* p; int n; float bias;
    __device__ float get(int i) const { return i < n ? p[i] + bias : 0; }
};
struct Both { View a, b; float weights[3]; int mode; };
__global__ void k(Both of, float* o) {
    o[threadIdx.x] = of.weights[0] * of.a.get(threadIdx.x) + of.weights[of.mode] * of.b.get(threadIdx.x);
}"""
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    launch(source, 1, 32, of=((x, 32, 1.0), (x, 16, 2.0), (1.0, 2.0, 3.0), 2), o=out)
    assert out.tolist() == [(t + 1) + 3 * (t + 2) * (t < 16) for t in range(32)]


# Shared memory.


@pytest.mark.parametrize(
    ("body", "thread", "byte"),
    [
        ("s[t] = 0;\n__syncthreads();\nC[t] = s[t + 16];  // here", 16, 128),  # s[32] to s[47] hold nothing
        ("if (t != 9) s[t] = 0;\n__syncthreads();\nC[t] = s[31 - t];  // here", 22, 36),
        ("if (blockIdx.x == 0) s[t] = 0;\n__syncthreads();\nC[t] = blockIdx.x ? s[t] : 0;  // here", 0, 0),
    ],
)
def test_uninitialised_shared_memory(body, thread, byte):
    found = fault(probe("__shared__ float s[48];\n" + body), columns=64)
    assert (found.kind, found.block, found.thread) == ("uninitialised", int("blockIdx" in body), thread)
    assert f"reads s at byte {byte}, never written" in str(found)


@pytest.mark.parametrize(
    ("body", "thread", "byte"),
    [
        ("s[t] = 0;\ns[t + 33] = A[t];  // here\n__syncthreads();\nC[t] = s[t];", 31, 256),
        ("s[int(t) - 1] = 0;  // here\n__syncthreads();\nC[t] = s[t];", 0, -4),
        ("s[t] = s[t + 32] = 0;\n__syncthreads();\nC[t] = s[t < 9 ? t : 7 * t];  // here", 10, 280),
        ("const float4 x = reinterpret_cast<float4*>(s)[t];  // here\nC[t] = x.x;", 16, 256),
    ],
)
def test_out_of_bounds_of_shared_memory(body, thread, byte):
    found = fault(probe("__shared__ __align__(16) float s[64];\n" + body))
    assert (found.kind, found.thread) == ("out of bounds", thread)
    assert f"shared memory at byte {byte} of 256" in str(found)


def test_loads_from_shared_memory_fault_in_their_order():
    """Though those with one base are one access, in which the last of these comes first and the first has company."""
    body = """
        __shared__ float s[96], r[96];
        s[t] = s[t + 64] = r[t] = A[t];
        __syncthreads();
        const float x = s[t + 64];
        const float y = r[t + 32];  // here
        const float z = s[t + 32];
        C[t] = x + y + z + s[t] + r[t];
    """
    found = fault(probe(body))
    assert (found.kind, found.thread) == ("uninitialised", 0)
    assert "reads r at byte 128" in str(found)


def test_shared_memory_that_a_launch_adds():
    """One array, whatever its names, behind what the kernel declares."""
    kernel = probe(
        """
        __shared__ unsigned s[3];
        extern __shared__ __align__(16) float d[];
        extern __shared__ unsigned e[];
        if (t < 3) s[t] = 100 * t;
        d[t] = __uint_as_float(t);
        __syncthreads();
        c[t] = e[31 - t] + s[t % 3];""",
        shared=128,
    )
    bits, run = run_bits(kernel, trace=[0])
    assert bits.tolist() == [31 - t + 100 * (t % 3) for t in range(32)]
    stored = {access.array: access.offsets.tolist() for access in run.trace if access.kind == "store"}
    assert stored["d"] == list(range(0, 128, 4)) and stored["s"] == [0, 4, 8]


def test_it_has_the_name_that_the_kernel_has_for_it():
    source = """
__global__ void other(float* a) { extern __shared__ float first[]; first[threadIdx.x] = 1; a[0] = first[0]; }
__global__ void k(float* a) { extern __shared__ float second[]; second[threadIdx.x] = 1; a[0] = second[63]; }"""
    assert "reads second at byte 252" in str(launched_fault(source, 1, 64, "k", 256, a=np.zeros(1, np.float32)))


@pytest.mark.parametrize(("size", "thread", "byte"), [(100, 25, 116), (4, 1, 20)])
def test_out_of_bounds_of_what_a_launch_adds(size, thread, byte):
    kernel = probe(
        """
        __shared__ float s[4];
        extern __shared__ __align__(16) float d[];
        if (t < 4) s[t] = 1.0f;
        d[t] = 1.0f;  // here
        __syncthreads();
        C[t] = d[t ^ 1] + s[t % 4];""",
        shared=size,
    )
    found = fault(kernel)
    assert (found.kind, found.thread) == ("out of bounds", thread)
    assert f"shared memory at byte {byte} of {16 + size}" in str(found)


RACES = {
    "write, read": (
        0,
        "reads s at byte 124, which thread 31 wrote",
        """
        s[t] = A[t];  // there
        C[t] = s[31 - t];  // here""",
    ),
    "write, read by one": (
        6,
        "reads s at byte 20, which thread 5 wrote",
        """
        s[t] = A[t];  // there
        if (t == 6) C[t] = s[5];  // here""",
    ),
    "write, read in another warp": (
        0,
        "reads s at byte 128, which thread 32 wrote",
        """
        s[t] = 1;  // there
        C[t] = s[(t + 32) % 64];  // here""",
    ),
    "write, wide read": (
        1,
        "reads s at byte 16, which thread 4 wrote",
        """
        s[t] = A[t];  // there
        if (t > 3) return;
        const float4 x = reinterpret_cast<float4*>(s)[t];  // here
        C[t] = x.x + x.y + x.z + x.w;""",
    ),
    "wide write, read": (
        1,
        "reads s at byte 4, which thread 0 wrote",
        """
        if (t < 8) reinterpret_cast<float4*>(s)[t] = make_float4(1, 2, 3, 4);  // there
        C[t] = s[t];  // here""",
    ),
    "write, read after a barrier and a write": (
        5,
        "reads s at byte 16, which thread 4 wrote",
        """
        s[t] = 1;
        __syncthreads();
        if (t == 4) s[4] = 2;  // there
        C[t] = s[t & 4];  // here""",
    ),
    "read, write": (
        0,
        "writes s at byte 0, which thread 31 read",
        """
        s[t] = 0;
        __syncthreads();
        C[t] = s[31 - t];  // there
        s[t] = 1;  // here""",
    ),
    "reads, write": (
        5,
        "writes s at byte 12, which several threads read",
        """
        s[t] = 0;
        __syncthreads();
        C[t] = s[3];  // there
        if (t == 5) s[3] = 1;  // here""",
    ),
    "own read and others', write": (
        3,
        "writes s at byte 12, which several threads read",
        """
        s[t] = 0;
        __syncthreads();
        C[t] = s[3];  // there
        if (t == 3) s[3] = 1;  // here""",
    ),
    "reads one after the other, write": (
        1,
        "writes s at byte 12, which several threads read",
        """
        s[t] = 0;
        __syncthreads();
        C[t] = 0;
        if (t == 1) C[t] = s[3];
        if (t == 2) C[t] = s[3];  // there
        if (t == 1) s[3] = 1;  // here""",
    ),
    "write, write": (
        0,
        "writes s at byte 124, which thread 31 wrote",
        """
        s[t] = 1;  // there
        s[31 - t] = 2;  // here
        __syncthreads();
        C[t] = s[t];""",
    ),
    "write, write at once": (
        0,
        "writes s at byte 0, which thread 1 wrote",
        """
        s[t / 2] = A[t];  // here
        __syncthreads();
        C[t] = s[t / 2];""",
    ),
}


@pytest.mark.parametrize(("thread", "what", "body"), RACES.values(), ids=RACES)
@pytest.mark.parametrize("block", [0, 2])
def test_races(thread, what, body, block):
    """The fault is found in whichever block it is: the others leave before. It names the lines of both accesses."""
    threads = 64 if "64" in body else 32
    body = body.replace("C[t]", f"C[blockIdx.x * {threads} + t]")
    alone = f"__shared__ __align__(16) float s[64];\nif (blockIdx.x != {block}) return;"
    kernel = probe(alone + body, threads)
    found = fault(kernel, columns=3 * threads)
    assert (found.kind, found.block, found.thread) == ("race", block, thread)
    there = line_of(kernel, "// there" if "// there" in body else "// here")
    assert str(found).endswith(f"{what} in line {there} since the last barrier")


FLAGGED = """
__global__ void k(const int* a, int* o) {
    const int t = threadIdx.x, b = blockIdx.x;
    __shared__ __align__(16) int flag[8];
    if (t < 8) flag[t] = 0;
    __syncthreads();
    BODY
    __syncthreads();
    o[b * blockDim.x + t] = flag[0];
}"""
SAME = {
    "by lanes at once": "if (a[t] > 3) flag[0] = 1;  // here",
    "by a later instruction": "if (t == 1) flag[0] = 1; __syncwarp(); if (t == 40) flag[0] = 1;  // here",
    "of 16 bytes": "if (a[t] > 60) *(int4*)flag = make_int4(1, 2, 3, 4);  // here",
    "by a warp, which then reads it": "if (t < 32) { flag[0] = 1; __syncwarp(); flag[t % 4 + 1] = flag[0]; }  // here",
}
DIFFERENT = {
    "by lanes at once": "if (a[t] > 3) flag[0] = t;  // here",
    "in the last block": "if (a[t] > 3) flag[0] = b < 2 ? 1 : t;  // here",
    "by a later instruction": "if (t == 1) flag[0] = 1; __syncwarp(); if (t == 40) flag[0] = b;  // here",
    "the last of 16 bytes": "if (a[t] > 60) *(int4*)flag = make_int4(1, 2, 3, t);  // here",
    "read against write": "if (a[t] == 3) flag[0] = 1; __syncwarp(); if (t == 40) flag[1] = flag[0];  // here",
    "read against writes": "if (t % 32 == 3) flag[0] = 1; __syncwarp(); if (t == 35) flag[1] = flag[0];  // here",
    "write against read": "if (t == 9) flag[1] = flag[0]; __syncwarp(); if (a[t] > 40) flag[0] = 1;  // here",
}


@pytest.mark.parametrize("body", SAME.values(), ids=SAME)
def test_stores_of_the_same_value_are_noted(body):
    """Once, in however many blocks."""
    source, a, o = FLAGGED.replace("BODY", body), np.arange(64, dtype=np.int32), np.zeros(192, np.int32)
    (note,) = launch(source, 3, 64, a=a, o=o).findings
    assert (o == 1).all()
    assert note.startswith("note: k, line 7, block 0, thread ") and "writes flag at byte" in note
    assert note.endswith("since the last barrier, the same value: no fault, but nothing orders the two")


@pytest.mark.parametrize("body", DIFFERENT.values(), ids=DIFFERENT)
def test_stores_of_other_values_are_races(body):
    found = launched_fault(
        FLAGGED.replace("BODY", body), 3, 64, a=np.arange(64, dtype=np.int32), o=np.zeros(192, np.int32)
    )
    assert (found.kind, found.line) == ("race", 7)
    assert found.block == 2 if "b < 2" in body else found.block in (0, 1)


def test_stores_of_all_lanes_that_differ_in_the_last_block_alone():
    source = """__global__ void k(const int* a, int* o) {
    __shared__ int flag;
    flag = a[5] + blockIdx.x / 2 * threadIdx.x;
    __syncthreads();
    o[threadIdx.x] = flag;
}"""
    found = launched_fault(source, 3, 64, a=np.zeros(8, np.int32), o=np.zeros(64, np.int32))
    assert (found.kind, found.line, found.block) == ("race", 3, 2)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("if (blockIdx.x == 1) s[t] = x;  // here", "race"),
        ("s[(t + blockIdx.x / 2) % 32] = x; x = s[t];  // here", "race"),
        ("__syncthreads(); if (blockIdx.x != 1) s[t + 32] = x; __syncthreads(); x = s[t + 32];  // here", "uninit"),
    ],
)
def test_what_one_block_does_otherwise_after_all_did_the_same(body, kind):
    begin = "__shared__ float s[64]; s[t] = A[t]; __syncthreads(); float x = s[31 - t];\n"
    if "x / 2" in body:
        begin += "__syncthreads();"
    found = fault(probe(begin + body + "\nC[blockIdx.x * 32 + t] = x;"), columns=96)
    assert found.kind.startswith(kind) and found.block == (2 if "x / 2" in body else 1)


def test_another_blocks_barrier_does_not_help():
    found = fault(
        probe(
            """
        __shared__ float s[32];
        s[t] = A[t];
        if (blockIdx.x == 0) __syncthreads();
        C[blockIdx.x * 32 + t] = s[31 - t];  // here""",
        ),
        columns=96,
    )
    assert (found.kind, found.block, found.thread) == ("race", 1, 0)


STUCK = {
    "half of the threads": (
        0,
        "thread 16 of its block never reaches: that one has left the kernel .GPUs from Volta on let this pass",
        """
        if (t < 16)
            __syncthreads();  // here
        C[t] = 1;""",
    ),
    "all but one that left": (
        0,
        "thread 3 of its block never reaches: that one has left the kernel",
        """
        if (t == 3) return;
        __syncthreads();  // here
        C[t] = 1;""",
    ),
    "some more often": (
        1,
        "thread 4 of its block waits at another barrier instruction, line 10",  # the loop is unrolled
        """
        for (unsigned i = 0; i < t % K; ++i)
            __syncthreads();  // here
        C[t] = 1;""",
    ),
    "either of two": (
        0,
        "thread 10 of its block waits at another barrier instruction, line 11: which barrier meets which is undefined",
        """
        if (a[t] > a[9]) {
            C[t] = 3;
            __syncthreads();
        } else {
            C[t] = 4;
            __syncthreads();  // here
            C[t] = 5;
        }""",
    ),
}


@pytest.mark.parametrize(("thread", "what", "body"), STUCK.values(), ids=STUCK)
def test_a_barrier_that_not_all_threads_reach(thread, what, body):
    kernel = probe(body)
    with pytest.raises(SimulationFault, match=what) as caught:
        run_bits(kernel, range(32))
    found = caught.value
    assert (found.kind, found.block, found.thread) == ("barrier", 0, thread)
    assert found.line == line_of(kernel, "// here")


def test_division_by_zero():
    with pytest.raises(SimulationFault) as caught:
        run_bits(probe("c[t] = 1000000 / (a[t] ^ 5);  // here"), range(32))
    assert (caught.value.kind, caught.value.thread, caught.value.line) == ("division by zero", 5, 8)


# No false alarms: what is right runs, and gives what it should.

RIGHT = {
    "a thread reads what it wrote": ("s[t] = A[t];\nC[t] = s[t] + s[t];", lambda A: 2 * A[:32]),
    "a thread writes again": ("s[t] = 1;\ns[t] = A[t];\nC[t] = s[t];", lambda A: A[:32]),
    "a thread overwrites what only it read": (
        "s[t] = A[t];\n__syncthreads();\nconst float x = s[31 - t];\ns[31 - t] = x;\n__syncthreads();\nC[t] = s[t];",
        lambda A: A[:32],
    ),
    "everyone reads one word": (
        "s[t] = A[t];\n__syncthreads();\nC[t] = s[0] + s[t & 1];",
        lambda A: A[0] + A[np.arange(32) & 1],
    ),
    "memory is used again after a barrier": (
        "float sum = 0;\nfor (int i = 0; i < 40; ++i) {\n    s[t] = A[(t + i) % 64];\n    __syncthreads();\n"
        "    sum += s[(t + i) % 32];\n    __syncthreads();\n}\nC[t] = sum;",
        lambda A: np.array([sum((A[((t + i) % 32 + i) % 64] for i in range(40)), np.float32(0)) for t in range(32)]),
    ),
    "reads on both sides of a barrier": (
        "s[t] = A[t];\n__syncthreads();\nfloat x = s[31 - t];\n__syncthreads();\nC[t] = x + s[(t + 1) % 32];",
        lambda A: A[31::-1][:32] + A[(np.arange(32) + 1) % 32],
    ),
    "one writes, all read": ("if (t == 9) s[0] = A[9];\n__syncthreads();\nC[t] = s[0];", lambda A: A[[9] * 32]),
    "wide and narrow": (
        "if (t < 8) reinterpret_cast<float4*>(s)[t] = reinterpret_cast<const float4*>(A)[t];\n__syncthreads();\n"
        "C[t] = s[t];",
        lambda A: A[:32],
    ),
    "neighbouring bytes": (
        "unsigned char* p = reinterpret_cast<unsigned char*>(s);\np[t] = t;\nC[t] = p[t] == t ? A[t] : 0;",
        lambda A: A[:32],
    ),
}


@pytest.mark.parametrize(("body", "expected"), RIGHT.values(), ids=RIGHT)
def test_no_false_alarm(body, expected):
    A = floats(1, 64)
    kernel = probe("__shared__ __align__(16) float s[32];\n" + body.replace("C[t]", "C[blockIdx.x * 32 + t]"))
    C = simulate(kernel, A, floats(64, 96)).C
    assert C.tolist() == [np.tile(expected(A[0]), 3).tolist()]  # every block has a shared memory of its own


def test_a_branch_that_a_whole_block_takes_may_hold_a_barrier():
    kernel = probe(
        """
        __shared__ unsigned s[32];
        if (a[blockIdx.x] == 1) {
            s[t] = 3 * t;
            __syncthreads();
            c[blockIdx.x * 32 + t] = s[31 - t];
        } else {
            c[blockIdx.x * 32 + t] = 7;
        }""",
    )
    up = list(range(93, -1, -3))
    assert run_bits(kernel, [1, 0, 1], columns=96)[0].tolist() == up + [7] * 32 + up


def test_threads_may_store_to_one_place_in_global_memory():
    assert run_bits(probe("c[0] = 5;"), columns=1)[0].tolist() == [5]
    assert run_bits(probe("c[0] = t | 32;"), columns=1)[0][0] in range(32, 64)


def test_hints_for_caches_change_nothing():
    source = """
__global__ void k(const float4* from, float4* to) {
    float4 v;
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %0, 0.5;" : "=l"(policy));
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.L2::256B.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from + threadIdx.x), "l"(policy));
    asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;"
                 :: "l"(to + threadIdx.x), "f"(v.w), "f"(v.y), "f"(v.z), "f"(v.x), "l"(policy) : "memory");
}"""
    given, to = np.arange(128, dtype=np.float32), np.zeros((32, 4), np.float32)
    run = launch(source, 1, 32, **{"from": given, "to": to})
    assert np.array_equal(to, given.reshape(32, 4)[:, [3, 1, 2, 0]])
    assert run.total.global_load_bytes == run.total.global_store_bytes == 512


@pytest.mark.parametrize("seed", range(40))
def test_loads_that_look_once_at_each_granule_leave_what_others_leave(seed, monkeypatch):
    """Same values, same stamps and the same faults, whatever was there before and whichever lanes load."""
    random = np.random.default_rng(seed)
    blocks, threads = int(random.integers(1, 4)), 64
    fresh = SharedMemory((), 4096, blocks, 4, bool(seed % 2), threads)
    fresh.data[:] = random.integers(256, size=fresh.data.size)
    fresh.wrote[:] = random.choice(
        [1, 1 << INTERVAL | 5, 0], p=[0.99, 0.009, 0.001] if seed % 3 else [1, 0, 0], size=fresh.wrote.size
    )
    fresh.read[:] = random.choice(
        [0, 1 << INTERVAL | 7], p=[0.99, 0.01] if seed % 4 == 1 else [1, 0], size=fresh.read.size
    )
    fresh.interval[:] = random.integers(1, 3, size=blocks)
    fresh.alike = False
    lanes = np.arange(blocks * threads) if seed % 5 else np.sort(random.permutation(blocks * threads)[:50])
    block, thread = lanes // threads, lanes % threads
    addresses = (random.integers(64, size=threads)[thread] * 16).astype(np.uint64)
    found = []
    for many in (0, 1 << 30):
        shared = copy.deepcopy(fresh)
        monkeypatch.setattr(memory, "MANY", many)
        try:
            loaded = shared.load(addresses, block, thread, np.dtype(np.uint32), 4, (0, 32, 2048))
        except Violation as violation:
            found.append(str(violation.args))
        else:
            found.append((np.array(loaded).tolist(), shared.read.tolist()))
    assert found[0] == found[1]
