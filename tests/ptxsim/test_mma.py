"""ldmatrix, stmatrix, movmatrix, mma.sync on the simulator: who holds what, products against NumPy and fractions."""

import math
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from ptxsim import SimulationFault, UnsupportedInstruction
from ptxsim.mma import KINDS, PLACES
from ptxsim.tensor import multiply_accumulate

from ..examples import steady
from .cuda import line_of, probe, run_bits
from .test_instructions import F32
from .test_tensor import elements, exponent_of, floor_to, truncated

LOADED = """
    __shared__ __align__(16) unsigned s[512];
    for (int i = t; i < 512; i += 32) s[i] = a[i];
    __syncthreads();
    unsigned r[4] = {};
    const unsigned at = __cvta_generic_to_shared(s);
"""


def ldmatrix(count, transposed, address):
    """Return the statement that loads `count` matrices."""
    registers = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"=r"(r[{i}])' for i in range(count))
    opcode = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' * transposed}.shared.b16"
    return f'asm volatile("{opcode} {{{registers}}}, [%{count}];" : {outputs} : "r"({address}) : "memory");  // here'


def stmatrix(count, transposed, address, space="shared"):
    """Return the statement that stores `count` matrices."""
    registers = ", ".join(f"%{i + 1}" for i in range(count))
    inputs = ", ".join(f'"r"(r[{i}])' for i in range(count))
    opcode = f"stmatrix.sync.aligned.m8n8.x{count}{'.trans' * transposed}.{space}.b16"
    return f'asm volatile("{opcode} [%0], {{{registers}}};" :: "r"({address}), {inputs} : "memory");  // here'


def mma(shape, type_, a, b):
    """Return the statement that multiplies the registers x and y and adds to z."""
    places = [", ".join(f"%{first + i}" for i in range(count)) for first, count in ((0, 4), (4, a), (4 + a, b))]
    d, x, y = ("{" + place + "}" for place in places)
    inputs = ", ".join([f'"r"(x[{i}])' for i in range(a)] + [f'"r"(y[{i}])' for i in range(b)])
    letter, sums = ("r", "s32") if type_[1] == "8" else ("f", "f32")
    outputs = ", ".join(f'"+{letter}"(z[{i}])' for i in range(4))
    types = type_ if "." in type_ else f"{type_}.{type_}"
    opcode = f"mma.sync.aligned.{shape}.row.col.{sums}.{types}.{sums}"
    return f'asm volatile("{opcode} {d}, {x}, {y}, {d};" : {outputs} : {inputs});  // here'


# ldmatrix.


@pytest.mark.parametrize("spelling", ["m8n8.x{}{}", "x{}.m8n8{}", "x{}{}.m8n8"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_load_of_matrices(count, transposed, spelling):
    """Rows lie 48 bytes apart, in the order in which the first lanes name them; no other address counts."""
    load, trans = ldmatrix(count, transposed, f"t < {8 * count} ? at + t * 48 : at + 1"), ".trans" * transposed
    kernel = probe(
        LOADED
        + load.replace(f"m8n8.x{count}{trans}", spelling.format(count, trans))
        + "\nfor (int i = 0; i < 4; ++i) c[4 * t + i] = r[i];",
    )
    numbers = np.arange(1024, dtype=np.uint16)
    got, run = run_bits(kernel, numbers.view(np.uint32), columns=128, blocks=[0])
    matrices = numbers.reshape(-1)[: 32 * 24].reshape(32, 24)[:, :8].reshape(4, 8, 8)
    if transposed:
        matrices = matrices.transpose(0, 2, 1)
    want = np.ascontiguousarray(matrices).view(np.uint32).reshape(4, 32)
    want[count:] = 0
    assert np.array_equal(got[:128].reshape(32, 4).T, want)
    counts = run.lines[line_of(kernel, "// here")]
    assert (counts.shared_load_requests, counts.shared_load_wavefronts) == (1, count)  # rows in different banks
    assert (counts.shared_load_bytes, counts.by_class["shared load"]) == (128 * count, 1)


@pytest.mark.parametrize("apart", [16, 32, 64, 128])
def test_wavefronts_of_a_load(apart):
    kernel = probe(
        LOADED + ldmatrix(4, False, f"at + t % 16 * {apart}") + "\nfor (int i = 0; i < 4; ++i) c[t] ^= r[i];",
    )
    _, run = run_bits(kernel, np.zeros(512, np.uint32), C=np.zeros((1, 32), np.float32))
    counts = run.lines[line_of(kernel, "// here")]
    assert counts.shared_load_wavefronts == 4 * apart // 16
    assert counts.shared_load_conflicts == 4 * apart // 16 - 4


FAULTS = {
    "a row off 16 bytes": (ldmatrix(4, False, "at + t * 16 + (t == 9) * 8"), "misaligned", 9, "a 16-byte access"),
    "past the end": (ldmatrix(4, False, "at + t * 66 / 32 * 32 * (t > 30) * 31"), "out of bounds", 31, "of 2048"),
    "too few lanes": ("if (t < 31) " + ldmatrix(4, False, "at + t * 16"), "divergence", 0, "without all of its warp"),
    "a load too early": ("s[t] = 0;\n" + ldmatrix(2, False, "at + t * 16"), "race", 0, "which thread 0 wrote"),
    "a store too early": (
        ldmatrix(1, False, "at + t * 16").replace("// here", "") + "s[t] = 0;  // here",
        "race",
        0,
        "writes s at byte 0, which warp 0 read",
    ),
}


def stops_here(kernel, fault, a, **sizes):
    """Run a kernel that does what it must not in the line that says so."""
    kind, thread, words = fault
    with pytest.raises(SimulationFault) as caught:
        run_bits(kernel, a, **sizes)
    assert (caught.value.kind, caught.value.thread) == (kind, thread)
    assert caught.value.line == line_of(kernel, "// here")
    assert words in str(caught.value)


@pytest.mark.parametrize("body", FAULTS.values(), ids=FAULTS)
def test_faults(body):
    statement, *fault = body
    kernel = probe(LOADED + statement + "\nc[t] = r[0] + r[1] + r[2] + r[3];")
    stops_here(kernel, fault, np.zeros(512, np.uint32))


@pytest.mark.parametrize("moved", [ldmatrix, stmatrix])
def test_where_few_lanes_give_addresses_the_thread_is_named(moved):
    """Eight lanes of each warp give addresses: the ninth is the second warp's first."""
    body = "__shared__ __align__(16) unsigned s[64];\ns[t] = a[t];\n__syncthreads();\nunsigned r[4] = {};\n"
    address = "unsigned(__cvta_generic_to_shared(s)) + t / 32 * 128 + t % 8 * 16 + (t == 34) * 8"
    kernel = probe(body + moved(1, False, address) + "\nc[t] = r[0];", threads=64)
    with pytest.raises(SimulationFault) as caught:
        run_bits(kernel, np.zeros(64, np.uint32))
    assert (caught.value.kind, caught.value.thread) == ("misaligned", 34)


# movmatrix.


def test_each_warp_transposes_a_matrix():
    kernel = probe(
        'unsigned r = a[t];\nasm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(r));\nc[t] = r;',
        threads=64,
    )
    numbers = np.arange(128, dtype=np.uint16)
    got, _ = run_bits(kernel, numbers.view(np.uint32))
    assert (got.ravel().view(np.uint16).reshape(2, 8, 8) == numbers.reshape(2, 8, 8).transpose(0, 2, 1)).all()


# stmatrix.

STORED = """
    __shared__ __align__(16) unsigned s[512];
    for (int i = t; i < 512; i += 32) s[i] = ~0u;
    __syncthreads();
    unsigned r[4];
    for (int i = 0; i < 4; ++i) r[i] = a[4 * t + i];
    const unsigned at = __cvta_generic_to_shared(s);
"""
READ = "\n__syncthreads();\nfor (int i = t; i < 512; i += 32) c[i] = s[i];"


def stored(words, addresses, count, transposed):
    """Return 2048 bytes as halves, all ones but for what the PTX ISA has each lane store there, one half at a time."""
    memory, halves = np.full(1024, 0xFFFF, np.uint16), words.view(np.uint16).reshape(32, 4, 2)
    for lane in range(32):
        for matrix in range(count):
            for i in range(2):
                row, column = lane // 4, lane % 4 * 2 + i
                if transposed:
                    row, column = column, row
                memory[addresses[8 * matrix + row] // 2 + column] = halves[lane, matrix, i]
    return memory


@pytest.mark.parametrize("space", ["shared", "shared::cta"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_store_of_matrices(count, transposed, space):
    """Rows lie 48 bytes apart, last matrix first; no address counts but those of the first lanes."""
    where = f"t < {8 * count} ? at + (t ^ 24) * 48 : at + 1"
    kernel = probe(STORED + stmatrix(count, transposed, where, space) + READ)
    words = np.random.default_rng(count).integers(0, 1 << 32, (32, 4), np.uint32)
    got, run = run_bits(kernel, words.ravel(), columns=512, blocks=[0], trace=[0])
    addresses = (np.arange(8 * count) ^ 24) * 48
    assert np.array_equal(got[:512].view(np.uint16), stored(words, addresses, count, transposed))
    counts = run.lines[line_of(kernel, "// here")]
    assert (counts.shared_store_requests, counts.shared_store_wavefronts) == (1, count)  # rows in different banks
    assert (counts.shared_store_bytes, counts.by_class["shared store"]) == (128 * count, 1)
    (access,) = [access for access in run.trace if access.line == line_of(kernel, "// here")]
    assert (access.space, access.kind, access.array, access.width) == ("shared", "store", "s", 16)
    assert access.offsets.tolist() == addresses.tolist() and access.threads.tolist() == list(range(8 * count))


@pytest.mark.parametrize("transposed", [(False, False), (True, True), (False, True), (True, False)])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_what_is_stored_is_loaded(count, transposed):
    """Two warps do it, each in a kilobyte of its own. Transposed once only, lanes get other lanes' halves."""
    body = f"""
    __shared__ __align__(16) unsigned s[512];
    unsigned r[4];
    for (int i = 0; i < 4; ++i) r[i] = a[4 * t + i];
    const unsigned at = unsigned(__cvta_generic_to_shared(s)) + t / 32 * 1024 + t % {8 * count} * 32;
    {stmatrix(count, transposed[0], "at").replace("// here", "")}
    for (int i = 0; i < 4; ++i) r[i] = 0;
    __syncwarp();
    {ldmatrix(count, transposed[1], "at")}
    for (int i = 0; i < 4; ++i) c[4 * t + i] = r[i];
    """
    kernel = probe(body, threads=64)
    words = np.random.default_rng(count).integers(0, 1 << 32, (64, 4), np.uint32)
    got, _ = run_bits(kernel, words.ravel(), columns=256, blocks=[0])
    want = np.zeros((64, 4), np.uint32)
    for first, matrix in [(first, matrix) for first in (0, 32) for matrix in range(count)]:
        held = np.ascontiguousarray(words[first : first + 32, matrix]).view(np.uint16).reshape(8, 8)
        held = held.T if transposed[0] != transposed[1] else held
        want[first : first + 32, matrix] = np.ascontiguousarray(held).view(np.uint32).ravel()
    assert np.array_equal(got[:256].reshape(64, 4), want)


def test_constants_are_stored_too():
    opcode = "stmatrix.sync.aligned.m8n8.x2.shared.b16"
    text = f'asm volatile("{opcode} [%0 + 32], {{%1, 7}};" :: "r"(at + t % 16 * 32), "r"(r[1]) : "memory");'
    kernel = probe(STORED + text + READ)
    words = np.arange(128, dtype=np.uint32)
    got, _ = run_bits(kernel, words, columns=512, blocks=[0])
    rows = got[8:136].reshape(16, 8)
    assert np.array_equal(rows[:8, :4].ravel(), words.reshape(32, 4)[:, 1])
    assert (rows[8:, :4] == 7).all() and (rows[:, 4:] == ~np.uint32(0)).all()


@pytest.mark.parametrize("apart", [16, 32, 64])
def test_wavefronts_of_a_store(apart):
    kernel = probe(STORED + stmatrix(4, False, f"at + t * {apart}") + READ)
    _, run = run_bits(kernel, np.zeros(128, np.uint32), columns=512, blocks=[0])
    counts = run.lines[line_of(kernel, "// here")]
    assert counts.shared_store_wavefronts == 4 * apart // 16
    assert counts.shared_store_conflicts == 4 * apart // 16 - 4


STORE_FAULTS = {
    "a row off 16 bytes": (stmatrix(4, False, "at + t * 16 + (t == 9) * 8"), "misaligned", 9, "a 16-byte access"),
    "past the end": (stmatrix(4, True, "at + t * 16 + t / 31 * 2048"), "out of bounds", 31, "of 2048"),
    "too few lanes": ("if (t > 3) " + stmatrix(4, False, "at + t * 16"), "divergence", 4, "without all of its warp"),
    "a row twice": (stmatrix(2, False, "at + t % 12 * 16"), "race", 12, "s at byte 0, where another lane of its warp"),
    "a store too early": ("r[0] = s[t + 4];\n" + stmatrix(1, False, "at + t * 16"), "race", 1, "which thread 0 read"),
    "a store too early after all": ("r[0] = s[9];\n" + stmatrix(1, False, "at + t * 16"), "race", 2, "warp 0 read"),
    "a store after stores": ("s[t] = 7;\n" + stmatrix(2, False, "at + t * 16"), "race", 0, "which thread 0 wrote"),
    "a read too early": (
        stmatrix(1, False, "at + t * 16").replace("// here", "") + "c[t] = s[t + 5];  // here",
        "race",
        0,
        "reads s at byte 20, which warp 0 wrote",
    ),
}


@pytest.mark.parametrize("body", STORE_FAULTS.values(), ids=STORE_FAULTS)
def test_faults_of_a_store(body):
    statement, *fault = body
    kernel = probe(STORED + statement + READ)
    stops_here(kernel, fault, np.zeros(128, np.uint32), columns=512, blocks=[0])


def test_two_warps_store_the_same_row():
    body = STORED.replace("i += 32", "i += 64")
    kernel = probe(body + stmatrix(1, False, "at + t % 8 * 16") + READ, threads=64)
    with pytest.raises(SimulationFault, match=r"race.*thread 0: writes s at byte 0, which warp 1 wrote"):
        run_bits(kernel, np.arange(256, dtype=np.uint32), columns=512, blocks=[0])


# mma.

SHAPES = {
    (f"m16n8k{width // size}", type_): (width // size, size)
    for types, size in ((("f16", "bf16"), 2), (("tf32",), 4), (("s8", "u8", "s8.u8", "u8.s8"), 1))
    for type_ in types
    for width in (32, 16)
}


def bits_of(numbers, type_):
    """Return small integers as the words of that type's elements, of 16 bits or 32."""
    single = np.asarray(numbers, np.float32)
    if type_[1:] == "8":
        return np.asarray(numbers).astype(np.uint8)
    if type_ == "f16":
        return single.astype(np.float16).view(np.uint16)
    return (single.view(np.uint32) >> 16).astype(np.uint16) if type_ == "bf16" else single.view(np.uint32)


def held(matrix, places):
    """Return the words that the lanes hold of a matrix of elements, as the PTX ISA has it: shape (32, registers)."""
    rows, columns = (of[:, : matrix.size // 32] for of in places)
    return np.ascontiguousarray(matrix[rows, columns]).view(np.uint32)


def by_the_book(name, lane, i, size):
    """Return row and column of a lane's i-th element, in the formulas of the PTX ISA."""
    group, member = lane >> 2, lane % 4
    if name == "c":
        return group + 8 * (i >= 2), member * 2 + (i & 1)
    if size == 1:
        if name == "a":
            return group + 8 * (i // 4 % 2), member * 4 + (i & 3) + 16 * (i >= 8)
        return member * 4 + (i & 3) + 16 * (i >= 4), group
    if size == 4:
        return (group + 8 * (i % 2), member + 4 * (i >= 2)) if name == "a" else (member + 4 * i, group)
    if name == "a":
        return group + 8 * (i in (2, 3, 6, 7)), member * 2 + (i & 1) + 8 * (i >= 4)
    return member * 2 + (i & 1) + 8 * (i >= 2), group


@pytest.mark.parametrize("which", PLACES, ids=str)
def test_places_are_those_of_the_manual(which):
    name, size = (which, 4) if which == "c" else which
    rows, columns = PLACES[which]
    for lane in range(32):
        for i in range(rows.shape[1]):
            assert (rows[lane, i], columns[lane, i]) == by_the_book(name, lane, i, size)
    assert len(set(zip(rows.ravel().tolist(), columns.ravel().tolist(), strict=True))) == rows.size


@pytest.mark.parametrize(("shape", "type_"), SHAPES)
def test_a_product(shape, type_):
    depth, size = SHAPES[shape, type_]
    random = np.random.default_rng(5)
    one, other, *_ = type_.split(".") * 2
    ranges = {"u8": (0, 256), "s8": (-128, 128)}
    A, B, C = (
        random.integers(*ranges.get(of, (-9, 10)), extent)
        for of, extent in ((one, (16, depth)), (other, (depth, 8)), ("s8" if size == 1 else "", (16, 8)))
    )
    sums, opened = (np.int32, "(int)") if size == 1 else (np.float32, "__uint_as_float")
    x = held(bits_of(A, one), PLACES["a", size])
    y = held(bits_of(B, other), PLACES["b", size])
    z = held(C.astype(sums).view(np.uint32), PLACES["c"])
    words = 4 * depth * size // 32
    assert (x.shape, y.shape) == ((32, words), (32, words // 2))
    kernel = probe(
        f"""
        unsigned x[{words}], y[{words // 2}];
        {"int" if sums is np.int32 else "float"} z[4];
        const unsigned* mine = a + {words * 3 // 2 + 4} * t;
        for (int i = 0; i < {words}; ++i) x[i] = *mine++;
        for (int i = 0; i < {words // 2}; ++i) y[i] = *mine++;
        for (int i = 0; i < 4; ++i) z[i] = {opened}(*mine++);
        {mma(shape, type_, words, words // 2)}
        for (int i = 0; i < 4; ++i) reinterpret_cast<unsigned*>(C)[4 * t + i] = reinterpret_cast<unsigned*>(z)[i];
    """,
    )
    got, run = run_bits(kernel, np.concatenate([x, y, z], axis=1).ravel(), columns=128, blocks=[0])
    want = (A @ B + C).astype(sums)
    assert np.array_equal(got[:128].view(sums).reshape(32, 4), want[PLACES["c"]])
    counts = run.lines[line_of(kernel, "// here")]
    assert (counts.by_class["tensor"], counts.flops) == (1, 2 * 16 * 8 * depth)


@pytest.mark.parametrize("depth", [8, 16])
def test_products_with_sums_in_fp16(depth):
    """Two elements in a register, where the PTX ISA has those of FP32 in two; four products of shared factors."""
    random, words = np.random.default_rng(depth), depth // 4
    A, B, C = (random.standard_normal(extent).astype(np.float16) for extent in ((2, 16, depth), (2, depth, 8), (16, 8)))
    x = [held(of.view(np.uint16), PLACES["a", 2]) for of in A]
    y = [held(of.view(np.uint16), PLACES["b", 2]) for of in B]
    z = held(C.view(np.uint16), PLACES["c"])
    assert (x[0].shape, y[0].shape, z.shape) == ((32, words), (32, words // 2), (32, 2))
    opcode = f"mma.sync.aligned.m16n8k{depth}.row.col.f16.f16.f16.f16"
    d, a, b = (
        ", ".join(f"%{first + i}" for i in range(n)) for first, n in ((0, 2), (2, words), (2 + words, words // 2))
    )
    statements = ""
    for product, (i, j) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
        inputs = [f"x[{i * words + k}]" for k in range(words)] + [f"y[{j * words // 2 + k}]" for k in range(words // 2)]
        inputs = ", ".join(f'"r"({of})' for of in inputs)
        outputs = f'"+r"(z[{2 * product}]), "+r"(z[{2 * product + 1}])'
        statements += f'asm volatile("{opcode} {{{d}}}, {{{a}}}, {{{b}}}, {{{d}}};" : {outputs} : {inputs});\n'
    kernel = probe(
        f"""
        unsigned x[{2 * words}], y[{words}], z[8];
        const unsigned* mine = a + {3 * words + 2} * t;
        for (int i = 0; i < {2 * words}; ++i) x[i] = *mine++;
        for (int i = 0; i < {words}; ++i) y[i] = *mine++;
        for (int i = 0; i < 8; ++i) z[i] = mine[i % 2];
        {statements}
        for (int i = 0; i < 8; ++i) c[8 * t + i] = z[i];
    """,
    )
    got, run = run_bits(kernel, np.concatenate([*x, *y, z], axis=1).ravel(), columns=256, blocks=[0])
    got = got[:256].reshape(32, 4, 2).view(np.float16)
    for product, (i, j) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
        sums = multiply_accumulate(A[i][None], B[j][None], C[None].astype(np.float32))[0].astype(np.float16)
        exact = A[i].astype(np.float64) @ B[j].astype(np.float64) + C
        size = np.abs(A[i].astype(np.float64)) @ np.abs(B[j].astype(np.float64)) + np.abs(C)
        assert (np.abs(sums - exact) <= 2.0**-11 * np.abs(exact) + 2.0**-20 * size).all()
        for lane in range(32):
            for e in range(4):
                row, column = by_the_book("c", lane, e, 2)
                assert got[lane, product, e] == sums[row, column]
    assert (run.total.by_class["tensor"], run.total.flops) == (4, 4 * 2 * 16 * 8 * depth)


def test_constants_will_do_for_registers():
    """A sum that begins with zeros is none of the lanes' registers in the compiler's PTX."""
    statement = mma("m16n8k8", "tf32", 4, 2)
    kernel = probe(
        f"unsigned x[4] = {{1u << 30, 1u << 30, 1u << 30, 1u << 30}}, y[2] = {{1u << 30, 1u << 30}};\n"
        f"float z[4] = {{}};\n{statement}\nC[t] = z[0] + z[3];",
    )
    got, _ = run_bits(kernel)
    assert (got.view(np.float32) == 64).all()


@pytest.mark.parametrize(
    "opcode",
    [
        "stmatrix.sync.aligned.m8n8.x1.b16",  # at a generic address
        "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8",  # not for compute capability 9.0
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8",
        "ldmatrix.sync.aligned.m8n8.x2.m8n8.shared.b16",
    ],
)
def test_other_matrices_are_refused(opcode):
    """The text is NVRTC's as it stands: ptxas has no say in what is compiled for the simulator."""
    address = '"l"(s)' if ".shared." not in opcode else '"r"(unsigned(__cvta_generic_to_shared(s)))'
    operands = "[%0], {%1}" if opcode.startswith("st") else "{%1, %1}, [%0]"
    body = "__shared__ __align__(16) unsigned s[128];\n"
    body += f'asm volatile("{opcode} {operands};" :: {address}, "r"(t) : "memory");  // here\nc[t] = s[t];'
    kernel = probe(body)
    with pytest.raises(UnsupportedInstruction, match=rf"line {line_of(kernel, '// here')}: .*matrix"):
        run_bits(kernel)


@pytest.mark.parametrize(
    "text",
    [
        mma("m16n8k32", "s8", 4, 2).replace(".s8.s8.", ".s8.s4.").replace('"+r"', '"+f"'),
        mma("m16n8k16", "bf16", 4, 2).replace(".f32.bf16.bf16.f32", ".f16.bf16.bf16.f16").replace('"+f"', '"+r"'),
        mma("m16n8k32", "f16", 4, 2),
        mma("m16n8k16", "f16", 4, 2).replace(".f32.f16.f16.f32", ".s32.f16.f16.s32"),
    ],
)
def test_what_is_not_known_is_refused(text):
    if ".f16.bf16.bf16.f16" in text:
        text = 'asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16 {%0, %1}, {%2, %2, %2, %2}, '
        text += '{%2, %2}, {%0, %1};" : "+r"(x[0]), "+r"(x[1]) : "r"(y[0]));  // here'
    kernel = probe(f"unsigned x[4] = {{}}, y[2] = {{}};\nfloat z[4] = {{}};\n{text}\nc[t] = x[0] + z[0];")
    with pytest.raises(UnsupportedInstruction, match=rf"line {line_of(kernel, '// here')}: .*mma"):
        run_bits(kernel)


def test_too_few_lanes_multiply():
    text = mma("m16n8k16", "bf16", 4, 2)
    kernel = probe(f"unsigned x[4] = {{}}, y[2] = {{}};\nfloat z[4] = {{}};\nif (t > 2) {text}\nC[t] = z[0];")
    with pytest.raises(SimulationFault, match=r"divergence.*thread 3: does without all of its warp"):
        run_bits(kernel)


# Arithmetic in TF32 and BF16: the model again, with fractions.

tf32 = elements(F32, np.float32).map(lambda x: (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32))
mild = st.floats(-4, 4, width=32).map(lambda x: (np.float32(x).view(np.uint32) & np.uint32(0xFFFFE000)).view("f4"))
vectors = st.one_of(st.lists(tf32, min_size=8, max_size=8), st.lists(mild, min_size=8, max_size=8))
LARGEST = 3.4028234663852886e38


@steady
@given(vectors, vectors, st.one_of(elements(F32, np.float32), st.floats(-8, 8, width=32).map(np.float32)))
@example([np.float32(2.0**-126)] * 8, [np.float32(2.0**-126)] * 8, np.float32(0))
@example([np.float32(2.0**-136)] * 8, [np.float32(1)] * 8, np.float32(2.0**-149))
@example([np.float32(2.0**-70)] * 8, [np.float32(-(2.0**-88))] * 8, np.float32(0))
@example([np.float32(1.9990234375 * 2.0**-66)] * 8, [np.float32(1.9990234375 * 2.0**-83)] * 8, np.float32(0))
@example([np.float32(2.0**64)] * 8, [np.float32(-(2.0**63))] * 8, np.float32(0))
@example([np.float32(2.0**64)] * 8, [np.float32(2.0**61)] * 8, np.float32(-3e38))
def test_products_and_sums_of_tf32(a, b, c):
    left, right = np.zeros((1, 16, 8), np.float32), np.zeros((1, 8, 8), np.float32)
    sums = np.zeros((1, 16, 8), np.float32)
    left[0, 3], right[0, :, 5], sums[0, 3, 5] = a, b, c
    with np.errstate(all="ignore"):
        got = multiply_accumulate(left, right, sums)[0, 3, 5]
    if not np.isfinite([*a, *b, c]).all():
        assert not np.isfinite(got)
        return
    terms = [
        (Fraction(float(x)) * Fraction(float(y)), exponent_of(x, -126) + exponent_of(y, -126))
        for x, y in zip(a, b, strict=True)
        if x and y
    ]
    terms += [(Fraction(float(c)), exponent_of(c, -126))] if c else []
    top = max([-133, *(exponent for _, exponent in terms)])
    exact = truncated(sum((floor_to(value, top - 25) for value, _ in terms), Fraction(0)))
    assert got == (exact if abs(exact) <= LARGEST else math.copysign(math.inf, exact))
    assert got or not np.signbit(got)


def test_integer_sums_are_limited_where_the_opcode_says_so():
    opcode = "mma.sync.aligned.m16n8k32.row.col{}.s32.u8.s8.s32"
    assert KINDS[opcode.format(".satfinite")].limited and not KINDS[opcode.format("")].limited
    assert not any("wmma" in of and ("u8.s8" in of or ("f16" in of and "satfinite" in of)) for of in KINDS)


def test_kinds_make_numbers_of_words():
    word = np.array([0x3F803FFF, 0xC0403F00], np.uint32)
    assert KINDS["mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"].numbers["a"](word).tolist() == [
        1.9921875,
        1.0,
        0.5,
        -3.0,
    ]
    assert KINDS["mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"].numbers["b"](word).tolist() == [
        1.0009765625,
        -3.001953125,
    ]


ROUNDED = {  # float32 and the TF32 that is nearest, ties away from zero
    0x3F801000: 0x3F802000,
    0xBF801000: 0xBF802000,
    0x3F800FFF: 0x3F800000,
    0x3FFFF000: 0x40000000,
    0x7F7FF000: 0x7F800000,  # past the range
    0x00001000: 0x00002000,
    0x80000FFF: 0x80000000,
    0xFF800000: 0xFF800000,
    0x7F800001: 0x7FFFFFFF,
}


def test_rounding_to_tf32():
    kernel = probe('asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(c[t]) : "f"(A[t]));', threads=len(ROUNDED))
    got, _ = run_bits(kernel, list(ROUNDED))
    assert got.tolist() == list(ROUNDED.values())
