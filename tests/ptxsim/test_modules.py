"""Variables of a module, local memory, and calls."""

import re

import numpy as np
import pytest

import ptxsim
from ptxsim.errors import UnsupportedInstruction
from ptxsim.modules import plain
from ptxsim.ptx import parse

from .cuda import fault, launch, per_thread, refused

VARIABLES = """
__constant__ float weights[4] = {1, 2, 3, 4};
__constant__ int by = 7;
__device__ int counter = 3;
__device__ float table[2][2];
__device__ float* into = &table[1][0];
__device__ double unused = 1.5;
namespace here { __device__ short small[2] = {-1, 5}; }
__global__ void k(float* out) {
    int t = threadIdx.x;
    out[t] = weights[t] * by + counter + into[t % 2] + here::small[1];
    if (t == 0) { counter += 10; table[0][1] = 5; }
}"""


def test_variables_have_the_values_of_the_module():
    out = np.zeros(4, np.float32)
    for _ in range(2):  # each run begins with them
        launch(VARIABLES, 1, 4, out=out)
        assert out.tolist() == [7 + 3 + 5, 14 + 3 + 5, 21 + 3 + 5, 28 + 3 + 5]


def test_arrays_stand_for_variables():
    out, counter, table = np.zeros(4, np.float32), np.array([100], np.int32), np.arange(4, dtype=np.float32)
    weights = np.full(4, 2, np.float32)
    launch(VARIABLES, 1, 4, out=out, _variables={"weights": weights, "counter": counter, "table": table})
    assert out.tolist() == [14 + 100 + 2 + 5, 14 + 100 + 3 + 5] * 2
    assert counter[0] == 110 and table.tolist() == [0, 5, 2, 3]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"weights": np.zeros(3, np.float32)}, "weights: got 12 bytes, needs 16"),
        ({"w": np.zeros(3)}, "variables: got w"),
    ],
)
def test_arrays_for_variables_must_fit(variables, message):
    with pytest.raises(ptxsim.ArgumentError, match=message):
        launch(VARIABLES, 1, 4, out=np.zeros(4, np.float32), _variables=variables)


def test_beyond_a_variable_is_out_of_bounds():
    source = "__device__ int table[8]; __global__ void k(int* a) { a[0] = table[a[1]]; }"
    found = fault(source, 1, 1, a=np.array([0, 8], np.int32))
    assert found.kind == "out of bounds" and "to table (32 bytes), 0 bytes past its end" in str(found)
    source = "__constant__ int table[8]; __global__ void k(int* a) { a[0] = table[a[1]]; }"
    assert "to table (32 bytes), 4 bytes before" in str(fault(source, 1, 1, a=np.array([0, -1], np.int32)))


def test_names_in_the_source():
    assert [
        plain(of) for of in ("w", "_ZL1w", "_ZN4here5smallE", "_Z1k", "$str$1", "_ZZ1kPfE1s", "_ZZ1kPiE1s_$_3")
    ] == [
        "w",
        "w",
        "small",
        "k",
        "$str$1",
        "s",
        "s",
    ]
    assert plain("_Z3topILi5E4PairEvT0_i") == "top"  # top<5, Pair>(Pair, int)
    assert [plain(of) for of in ("_Z4fill6Matrix", "_ZL4fill6MatrixS_", "_ZN4here4fillE6Matrix")] == ["fill"] * 3


def test_messages_have_the_name_in_the_source():
    source = "template <int N> __global__ void bare(int* a) { a[N] = 1; }"
    found = fault(source, 1, 1, "bare<4>", a=np.zeros(4, np.int32))
    assert str(found).startswith("out of bounds: bare, line 1, block 0, thread 0: ")


def test_scopes_within_scopes_of_inline_assembly():
    """An inner name hides an outer one, and a type may follow .reg at once, as in CUDA's headers."""
    source = r"""__global__ void k(int* a) { int x = a[threadIdx.x], r;
    asm("{.reg.b32 p, q;\n mov.b32 p, %1;\n mov.b32 q, 5;\n {.reg.b32 p; mov.b32 p, 7; add.u32 q, q, p;\n}\n"
        "{.reg.b32 p; mov.b32 p, 9; add.u32 q, q, p;\n}\n add.u32 %0, p, q;\n}" : "=r"(r) : "r"(x));
    a[threadIdx.x] = r; }"""
    a = np.arange(8, dtype=np.int32)
    launch(source, 1, 8, a=a)
    assert a.tolist() == list(range(21, 29))


def test_an_array_in_local_memory():
    got = per_thread(
        """float mine[8];
    for (int i = 0; i < 8; ++i) mine[(i + t) % 8] = i * a[t];
    o[t] = mine[(int)a[t] % 8] + mine[0];""",
        np.arange(40, dtype=np.float32),
    )
    assert got.tolist() == [((t % 8 - t) % 8) * t + ((-t) % 8) * t for t in range(40)]


def test_local_memory_has_bounds_and_begins_empty():
    source = """__global__ void k(int* a) {
    volatile int mine[4];
    if (a[2]) for (int i = 0; i < 4; ++i) mine[i] = i;
    a[0] = mine[a[1]];
}"""
    assert "local memory at byte 16 of 16" in str(fault(source, 1, 2, a=np.array([0, 4, 1], np.int32)))
    found = fault(source, 1, 2, a=np.array([0, 2, 0], np.int32))
    assert found.kind == "uninitialised" and found.line == 4 and "local memory at byte 8, never written" in str(found)


def test_generic_addresses_go_to_their_memories():
    source = """__device__ __noinline__ float second(const float* p) { return p[1]; }
__device__ float far[2] = {1, 2};
__global__ void k(float* a) {
    __shared__ float ours[2];
    float mine[2] = {a[2], a[3]};
    if (threadIdx.x == 0) { ours[0] = 5; ours[1] = 6; }
    __syncthreads();
    const float* p = threadIdx.x % 4 == 0 ? mine : threadIdx.x % 4 == 1 ? ours : threadIdx.x % 4 == 2 ? far : a;
    a[4 + threadIdx.x] = second(p);
}"""
    a = np.zeros(12, np.float32)
    a[:4] = 3, 4, 7, 8
    launch(source, 1, 8, a=a)
    assert a[4:].tolist() == [8, 6, 2, 4] * 2


CALLS = """struct P { float x; double y; char z; };
__device__ __noinline__ P make(float x, int n) { P p; p.x = x; p.y = x * n; p.z = n; return p; }
__device__ __noinline__ float sum(P p, P q) { return p.x + q.y + q.z; }
__device__ __noinline__ void store(float* to, float what) { *to = what; }
__global__ void k(float* a) {
    P p = make(a[threadIdx.x], 3);
    if (threadIdx.x % 2) store(a + threadIdx.x, sum(p, make(1, threadIdx.x)));
    else store(a + threadIdx.x, -p.x);
}"""


def test_calls_pass_structs_and_diverge():
    a = np.arange(64, dtype=np.float32)
    run = launch(CALLS, 2, 32, a=np.resize(a, 64))
    launch(CALLS, 1, 64, a=a)
    assert a.tolist() == [t + t + t if t % 2 else -t for t in range(64)]
    assert run.lines[2].instructions > 0 and run.lines[4].instructions > 0  # callees have lines too


def test_recursion():
    source = """__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ __noinline__ int odd(int n);
__device__ __noinline__ int even(int n) { int m = n * 3; return n == 0 ? 1 : odd(n - 1) + 0 * m; }
__device__ __noinline__ int odd(int n) { return n == 0 ? 0 : even(n - 1); }
__device__ __noinline__ int ackermann(int m, int n) {
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
__global__ void k(int* a) { int t = threadIdx.x; a[t] = fib(t) * 10 + even(t) + 100000 * ackermann(2, t % 3); }"""
    a = np.zeros(15, np.int32)
    launch(source, 1, 15, a=a)
    fib = [0, 1]
    while len(fib) < 15:
        fib.append(fib[-1] + fib[-2])
    assert a.tolist() == [fib[t] * 10 + (t % 2 == 0) + 100000 * (2 * (t % 3) + 3) for t in range(15)]


def test_recursion_without_end():
    source = "__device__ __noinline__ int f(int* n) { int m[4]; m[n[0]] = n[1]; return f(m) + m[1]; }\n"
    found = fault(source + "__global__ void k(int* a) { a[0] = f(a); }", 1, 1, a=np.zeros(4, np.int32))
    assert found.kind in ("stack overflow", "uninitialised")
    source = "__device__ __noinline__ int f(int n, int* a) { return a[n & 3] == 7 ? 0 : 2 * f(n + 1, a) + n; }\n"
    found = fault(source + "__global__ void k(int* a) { a[0] = f(a[0], a); }", 1, 1, a=np.zeros(4, np.int32))
    assert found.kind == "stack overflow" and found.line == 1


def test_printf(capsys):
    source = r"""__global__ void k(const char* form, int n) {
    if (threadIdx.x > 1) return;
    printf("%d %5.2f|%-4s|%c%%", n, 1.5f, "ab", 'x');
    printf("%lld %u %x %p %*d\n", -5000000000ll, -1, 255, nullptr, 6, threadIdx.x);
}"""
    launch(source, 1, (3, 2), form=np.zeros(4, np.int8), n=np.int32(-7))
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == ["[block 0, thread (0, 0)] -7  1.50|ab  |x%", "[block 0, thread (1, 0)] -7  1.50|ab  |x%"]
    threads = [(x, y) for y in range(2) for x in range(3) if x < 2]
    assert printed[len(threads) :] == [
        f"[block 0, thread {of}] -5000000000 4294967295 ff 0x0 {of[0]:6d}" for of in threads
    ]


def test_printf_as_c_has_it(capsys):
    """Python's own formatting writes 0o10, 0x0 and 0x1.8000000000000p+0."""
    for form, number, text in (
        ("%#o|%#06o|%-#5o|%#.4o", "8", "010|000010|010  |0010"),
        ("%#x|%#X|%#6x|%#o", "0", "0|0|     0|0"),
        ("%#x|%#X|%#8x", "255", "0xff|0XFF|    0xff"),
        ("%a|%A|%.2a|%10a|%-8a|", "1.5", "0x1.8p+0|0X1.8P+0|0x1.80p+0|  0x1.8p+0|0x1.8p+0|"),
        ("%a|%.0a|%.3a|%.13a", "-1.0 / 3", "-0x1.5555555555555p-2|-0x1p-2|-0x1.555p-2|-0x1.5555555555555p-2"),
        ("%a|%.1a|%.1a", "0.0", "0x0p+0|0x0.0p+0|0x0.0p+0"),
        ("%a|%.1a", "1.0 / zero", "inf|inf"),
        ("%.2a|%.1a", "1.0 + 0x1.7ffp-1", "0x1.c0p+0|0x1.cp+0"),
    ):
        numbers = ", ".join([number] * form.count("|") if form[-1] == "|" else [number] * (form.count("|") + 1))
        launch(f'__global__ void k(double zero) {{ printf("{form}\\n", {numbers}); }}', 1, 1, zero=0.0)
        assert capsys.readouterr().out == f"[block 0, thread 0] {text}\n", form


def test_assert_and_trap():
    source = "__global__ void k(int n) {\n int m = n * 2;\n assert(m < 10 + threadIdx.x);\n if (n == 9) __trap();\n}"
    launch(source, 1, 4, n=np.int32(4))
    found = fault(source, 1, 4, n=np.int32(6))
    assert found.kind == "assertion" and (found.line, found.thread) == (3, 0)
    assert "m < 10 + threadIdx.x does not hold in kernel.cu, line 3, void k(int)" in str(found)
    trapped = "__global__ void k(int n) {\n if (n + threadIdx.x == 9)\n __trap();\n}"
    found = fault(trapped, 1, 4, n=np.int32(6))
    assert (found.kind, found.line, found.thread) == ("trap", 3, 3)


POINTERS = """
typedef int (*Change)(int, int);
__device__ int add(int x, int n) { return x + n; }
__device__ int subtract(int x, int n) { return x - n; }
__device__ int twice(int x, int n) { return n ? twice(x, n - 1) * 2 : x; }
__device__ Change table[3] = {add, subtract, twice};
__constant__ Change fixed[2] = {subtract, add};
template <class F> __device__ __noinline__ int applied(F f, int x) { return f(x, 2) + 1; }
__global__ void k(int* a, int n) {
    const int t = threadIdx.x;
    Change own[2] = {twice, add};
    if (t < 30) a[t] = table[(t + n) % 3](a[t], t % 4);
    a[t] += fixed[n & 1](100, t) + applied(t % 2 ? add : subtract, t) + own[(t / 2 + n) % 2](t, 3);
}
struct Shape { int side; __device__ virtual int area(int by) { return side * by; } };
struct Square : Shape { __device__ int area(int by) override { return side * side + by; } };
__global__ void v(int* a) {
    Shape one; Square other;
    one.side = 3, other.side = 5;
    Shape* of = threadIdx.x % 2 ? &one : &other;
    a[threadIdx.x] = of->area(threadIdx.x);
}
__global__ void unused(int* a) { a[0] = add(a[0], 1); }
"""


@pytest.mark.parametrize("n", [0, 1, 2])
def test_calls_by_pointers(n):
    """They come from tables in global and constant memory, a local array and arguments; lanes call different ones."""
    a = np.arange(40, dtype=np.int32)
    launch(POINTERS, 1, 40, "k", a=a, n=np.int32(n))
    add, subtract, twice = (lambda x, m: x + m), (lambda x, m: x - m), (lambda x, m: x << m)
    want = []
    for t in range(40):
        first = (add, subtract, twice)[(t + n) % 3](t, t % 4) if t < 30 else t
        then = (add if t % 2 else subtract)(t, 2) + 1
        want.append(first + (subtract, add)[n & 1](100, t) + then + (twice, add)[(t // 2 + n) % 2](t, 3))
    assert a.tolist() == want


def test_virtual_functions():
    a = np.zeros(6, np.int32)
    launch(POINTERS, 1, 6, "v", a=a)
    assert a.tolist() == [3 * t if t % 2 else 25 + t for t in range(6)]


DESTRUCTORS = """#include <new>
struct Base { int* to; __device__ Base(int* to) : to(to) {} __device__ virtual ~Base() { *to += 100; } };
struct Derived : Base { __device__ Derived(int* to) : Base(to) {} __device__ ~Derived() override { *to += 7; } };
__global__ void k(int* a, bool heap) {
    __shared__ alignas(16) char room[64][16];
    int t = threadIdx.x;
    Base* it = t % 2 ? new (room[t]) Base(a + t) : new (room[t]) Derived(a + t);
    if (heap) delete it; else it->~Base();  // here
}"""


def test_other_orders_print_nothing(capsys):
    source = '#include <cstdio>\n__global__ void k(int* a) { a[threadIdx.x] = printf("%d\\n", a[threadIdx.x]); }'
    launch(source, 1, 2, a=np.array([4, 2], np.int32), _orders=5)
    assert capsys.readouterr().out == "[block 0, thread 0] 4\n[block 0, thread 1] 2\n"


def test_virtual_destructors():
    """Each has a form that frees memory, in the table of its class; only whoever deletes an object calls that one."""
    a = np.zeros(40, np.int32)
    launch(DESTRUCTORS, 1, 40, a=a, heap=np.bool_(False))
    assert a.tolist() == [100 if t % 2 else 107 for t in range(40)]
    found = fault(DESTRUCTORS, 1, 40, a=a, heap=np.bool_(True))
    assert found.kind == "out of bounds" and "which is of no heap" in str(found)


def test_only_functions_whose_address_is_taken_belong_to_a_call_by_a_pointer():
    """The other kernel calls one by its name alone, and it may do what the simulator does not know."""
    source = """__device__ __noinline__ int odd(int n) { long long t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t));
    return n + t; }
__device__ int f(int n) { return n + 1; }
__device__ int g(int n) { return n - 1; }
__global__ void other(int* a) { a[0] = odd(a[1]); }
__global__ void k(int* a) { int (*of[2])(int) = {f, g}; a[0] = of[a[1] & 1](a[2]); }"""
    a = np.array([0, 1, 7], np.int32)
    launch(source, 1, 1, "k", a=a)
    assert a[0] == 6
    assert "clock64" in refused(source, 1, 1, "other", a=a)


CALLED = """__device__ __noinline__ int f(int n) { return n + 1; }
__device__ __noinline__ int g(int n, int m) { return n - m; }
typedef int (*Of)(int);
__global__ void k(int* a, unsigned long long p) {
    Of of[2] = {f, reinterpret_cast<Of>(threadIdx.x == 3 ? p : a[0] ? (unsigned long long)(g) : 0)};
    a[threadIdx.x] =
        of[threadIdx.x == 3](a[2]);
}"""


@pytest.mark.parametrize(
    ("a", "p", "words"),
    [
        (0, 0, "calls what is at 0x0, no function of 1 arguments"),
        (0, 1 << 41, "calls what is at 0x20000000000, no function"),
    ],
)
def test_pointers_to_no_function(a, p, words):
    found = fault(CALLED, 1, 8, "k", a=np.full(8, a, np.int32), p=np.uint64(p))
    assert (found.kind, found.line, found.thread) == ("out of bounds", 7, 3)
    assert words in str(found)


def test_a_pointer_to_a_function_of_other_arguments():
    source = CALLED.replace("threadIdx.x == 3 ? p :", "")
    found = fault(source, 1, 8, "k", a=np.ones(8, np.int32), p=np.uint64(0))
    assert (found.kind, found.line, found.thread) == ("out of bounds", 7, 3)
    assert "no function of 1 arguments" in str(found)


def test_a_list_of_what_a_call_may_reach():
    """PTX has such lists, though NVRTC writes prototypes."""
    ptx, entry = ptxsim.compile(CALLED, "k")
    listed = re.sub(r"(prototype_\d+) : \.callprototype[^;]*;", r"\1: .calltargets _Z1fi, _Z1gii;", ptx)
    assert listed != ptx
    a = np.ones(3, np.int32)
    ptxsim.run(listed, entry, 1, 3, {"a": a, "p": np.uint64(0)})
    assert a.tolist() == [2, 2, 2]


def test_what_calls_are_refused():
    source = "__global__ void k(int** a) { a[0] = (int*)malloc(8); }"
    wmma = """#include <mma.h>
using namespace nvcuda::wmma;
__global__ void k(int* a) { fragment<matrix_a, 8, 8, 32, experimental::precision::s4, row_major> f;
    load_matrix_sync(f, a, 32); a[threadIdx.x] = f.x[0]; }"""
    words = ", as of tensor cores it knows FP16, BF16, TF32, INT8 and FP64, in the shapes and sums that"
    assert words in refused(wmma, 1, 32, a=np.zeros(256, np.int32))
    tile = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(int* a) { __shared__ cg::block_tile_memory<128> memory; auto block = cg::this_thread_block(memory);
    auto tile = cg::tiled_partition<64>(block); a[threadIdx.x] = tile.shfl(a[threadIdx.x], 3); }"""
    assert "tiles of cooperative groups have at most 32" in refused(tile, 1, 128, a=np.zeros(128, np.int32))
    barrier = """#include <cuda/barrier>
__global__ void k(int* a) { __shared__ cuda::barrier<cuda::thread_scope_block> meet;
    if (threadIdx.x == 0) init(&meet, 32); __syncthreads(); meet.arrive_and_wait(); a[threadIdx.x] = 1; }"""
    assert "cuda::barrier and a shared cuda::pipeline" in refused(barrier, 1, 32, a=np.zeros(32, np.int32))
    assert "does not know: call.uni (retval0), malloc" in refused(source, 1, 1, a=np.zeros(4, np.int32))


def test_structs_as_arguments():
    source = (
        "struct P { float x; int n; }; __global__ void k(float* o, P p, float4 f) { o[0] = p.x * p.n + f.x + f.w; }"
    )
    out = np.zeros(1, np.float32)
    p = np.array((2.5, 3), [("x", "f4"), ("n", "i4")])[()]
    f = np.array((1, 2, 3, 4), [(of, "f4") for of in "xyzw"])[()]
    launch(source, 1, 1, o=out, p=p, f=f)
    assert out[0] == 12.5
    with pytest.raises(ptxsim.ArgumentError, match="p: got float32, needs 8 bytes"):
        launch(source, 1, 1, o=out, p=np.float32(0), f=f)


def test_names_within_braces_of_inline_assembly():
    """The same names in two places."""
    source = r"""__device__ int clipped(int x, int most) {
    int r;
    asm("{ .reg .pred p, q; .reg .u32 %%kept1; setp.gt.s32 p, %1, %2; mov.u32 %%kept1, %1; @p mov.u32 %%kept1, %2;\n"
        "@p bra DONE; add.u32 %%kept1, %%kept1, 1000;\nDONE: mov.u32 %0, %%kept1; }" : "=r"(r) : "r"(x), "r"(most));
    return r;
}
__global__ void k(int* a) { int t = threadIdx.x; a[t] = clipped(t, 3) + 2 * clipped(t + 1, 5); }"""
    a = np.zeros(8, np.int32)
    launch(source, 1, 8, a=a)
    clip = lambda x, most: most if x > most else x + 1000  # noqa: E731
    assert a.tolist() == [clip(t, 3) + 2 * clip(t + 1, 5) for t in range(8)]


def test_a_variable_that_is_defined_elsewhere():
    ptx, entry = ptxsim.compile("__device__ int far[2]; __global__ void k(int* a) { a[0] = far[a[1]]; }")
    ptx = re.sub(r"\.visible (\.global[^;]*far)", r".extern \1", ptx)
    ptx = ptx if ".extern .global" in ptx else re.sub(r"(\.global [^;]*far\[8\];)", r".extern \1", ptx)
    with pytest.raises(UnsupportedInstruction, match="no value of the variable far, defined elsewhere"):
        ptxsim.run(ptx, entry, 1, 1, {"a": np.zeros(2, np.int32)})


def test_more_shared_memory_than_a_block_may_have():
    source = (
        "__global__ void k(int* a) { extern __shared__ int s[]; s[threadIdx.x] = 1; a[threadIdx.x] = s[threadIdx.x]; }"
    )
    launch(source, 1, 8, shared=227 << 10, a=np.zeros(8, np.int32))
    with pytest.raises(
        ptxsim.ArgumentError, match="shared: got 232449 bytes of shared memory per block, needs at most"
    ):
        launch(source, 1, 8, shared=(227 << 10) + 1, a=np.zeros(8, np.int32))


SHARED_BESIDE = """
.shared .align 4 .b8 narrow[4];
.shared .align 16 .b8 _ZZ3sumiE4both[32];
.weak .shared .align 8 .b8 more[8];

.visible .entry other(.param .u64 out)
{
    .shared .align 4 .b8 own[64];
    mov.u32 %r1, more;
    ret;
}
.visible .entry k(.param .u64 out, .param .u32 n)
{
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .shared .align 4 .b8 own[4];
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r8, [n];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    mov.u32 %r2, _ZZ3sumiE4both;
    mad.lo.u32 %r3, %r1, 4, %r2;
    st.shared.u32 [%r3], %r8;
    st.shared.u32 [own], %r8;
    ld.shared.u32 %r4, [%r3];
    add.u32 %r4, %r4, %r2;
    st.global.u32 [%rd3], %r4;
    ret;
}"""


def test_shared_variables_beside_the_kernels():
    """Each block of a kernel that uses one has it, aligned and behind the kernel's own."""
    ptx = f".version 8.0\n.target sm_90\n.address_size 64\n{SHARED_BESIDE}"
    program = parse(ptx, "k", 10)
    assert [(of.name, of.offset, of.size) for of in program.shared.values()] == [("own", 0, 4), ("both", 16, 32)]
    assert program.shared_bytes == 48
    out = np.zeros(8, np.uint32)
    ptx = ptx.replace("st.shared.u32 [own], %r8;", "")
    ptxsim.run(ptx, "k", 2, 8, {"out": out, "n": np.uint32(5)})
    assert out.tolist() == [21] * 8
    with pytest.raises(ptxsim.SimulationFault, match=r"uninitialised: k, line .* both"):
        ptxsim.run(ptx.replace("st.shared.u32 [%r3], %r8;", ""), "k", 1, 8, {"out": out, "n": np.uint32(5)})


def test_a_function_with_shared_memory_that_is_used_twice():
    source = """__device__ int sum(int v) {
    __shared__ int s[32];
    s[threadIdx.x] = v;
    __syncthreads();
    for (int i = 0; i < 32; i++) v += s[i];
    __syncthreads();
    return v;
}
__global__ void once(int* a) { a[threadIdx.x] = sum(1); }
__global__ void twice(int* a) { a[threadIdx.x] = sum(2) + sum(a[threadIdx.x]); }"""
    for name, expected in (("once", 33), ("twice", 66 + 33 * 3)):
        a = np.full(32, 3, np.int32)
        launch(source, 2 if name == "once" else 1, 32, name, a=a)
        assert a.tolist() == [expected] * 32
    broken = source.replace("    __syncthreads();\n    return", "    return")
    found = fault(broken, 1, 32, "twice", a=np.zeros(32, np.int32), _orders=4)
    assert found.kind == "race" and " s " in str(found)
