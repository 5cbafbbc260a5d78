"""The PTX reader: what it takes, and that it refuses the rest with the line of the kernel's source."""

import gc
import re
import weakref

import numpy as np
import pytest

from ptxsim import SimulationFault, UnsupportedInstruction, decode
from ptxsim.machine import Machine
from ptxsim.ptx import Address, Immediate, Register, Symbol, parse

from ..examples import floats
from .cuda import launch, line_of, probe, run_bits, simulate


def program(body, parameters=".param .u64 f_param_0"):
    return parse(f".version 9.0\n.visible .entry f({parameters})\n.maxntid 32, 1, 1\n{{\n{body}\n}}\n", "f")


def first(text):
    """Return the one instruction of a program."""
    ((instruction,),) = program(text).blocks
    return instruction


def test_floats_in_decimals_and_offsets_in_hexadecimal():
    """Compilers write neither; people do, in inline PTX."""
    source = """__global__ void k(float* a, double* b, const float* c) {
    asm("fma.rn.f32 %0, %1, 2.5, -1.0e-1;" : "=f"(a[0]) : "f"(c[0]));
    asm("mul.f64 %0, %1, 0.1;" : "=d"(b[0]) : "d"(b[1]));
    asm volatile("ld.global.f32 %0, [%1+0x10];" : "=f"(a[1]) : "l"(c));
    asm("mov.f32 %0, 1.;" : "=f"(a[2]));
}"""
    a, b, c = np.zeros(3, np.float32), np.array([0, 3.0]), np.arange(3, 8, dtype=np.float32)
    launch(source, 1, 1, a=a, b=b, c=c)
    assert a.tolist() == [np.float32(3 * 2.5 - float(np.float32(0.1))), 7, 1] and b[0] == 3 * 0.1
    with pytest.raises(UnsupportedInstruction, match=r"mov.b32 %r1, 1.5"):
        Machine(program(".reg .b32 %r<9>; mov.b32 %r1, 1.5; ret;", ""), "f", 32, {})


def test_an_instruction_and_its_operands():
    instruction = first("fma.rn.f32 \t%f19, %f18, 0f3F800000, %f36;")
    assert instruction.opcode == "fma.rn.f32"
    assert instruction.operands == (Register("%f19"), Register("%f18"), Immediate(0x3F800000), Register("%f36"))
    assert instruction.text == "fma.rn.f32 %f19, %f18, 0f3F800000, %f36"
    assert instruction.guard is None


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ("12", Immediate(12)),
        ("-4", Immediate(-4)),
        ("0x1F", Immediate(31)),
        ("0xFFFFFFFFU", Immediate(2**32 - 1)),
        ("0fBF800000", Immediate(0xBF800000)),
        ("0d3FF0000000000000", Immediate(0x3FF0000000000000)),
        ("%tid.x", Register("%tid.x")),
        ("$L__BB0_1", Symbol("$L__BB0_1")),
        ("_ZZ1fE2As", Symbol("_ZZ1fE2As")),
    ],
)
def test_operands(text, operand):
    assert first(f"mov.b32 %r1, {text};").operands == (Register("%r1"), operand)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("[%rd4]", Address(Register("%rd4"), 0)),
        ("[%rd4+12]", Address(Register("%rd4"), 12)),
        ("[%rd4+-128]", Address(Register("%rd4"), -128)),
        ("[ %rd4 + 8 ]", Address(Register("%rd4"), 8)),
        ("[As+64]", Address(Symbol("As"), 64)),
        ("[16]", Address(None, 16)),
    ],
)
def test_addresses(text, address):
    assert first(f"ld.shared.f32 %f1, {text};").operands == (Register("%f1"), address)


def test_vectors():
    load = first("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+16];")
    assert load.operands == (tuple(Register(f"%f{i}") for i in (1, 2, 3, 4)), Address(Register("%rd1"), 16))
    store = first("st.shared.v2.f32 [%rd1], {%f1, 0f00000000};")
    assert store.operands == (Address(Register("%rd1"), 0), (Register("%f1"), Immediate(0)))


def test_guards():
    assert first("@%p3 bra $L;").guard == ("%p3", True)
    assert first("@!%p3 bra $L;").guard == ("%p3", False)


def test_labels_branches_and_barriers_bound_basic_blocks():
    read = program("""
        mov.u32 %r1, 0;
    $L__BB0_1:
    $L__BB0_2:
        add.s32 %r1, %r1, 1;
        bar.sync 0;
        @%p1 bra $L__BB0_1;
        bra.uni $L__BB0_3;
    $L__BB0_3:
        ret;
    """)
    assert [[i.opcode for i in block] for block in read.blocks] == [
        ["mov.u32"],
        ["add.s32", "bar.sync"],
        ["bra"],
        ["bra.uni"],
        ["ret"],
    ]
    assert read.targets == {"$L__BB0_1": 1, "$L__BB0_2": 1, "$L__BB0_3": 4}


def test_declarations():
    read = program(
        """
        .reg .pred %p<12>;
        .reg .b64 %rd<3>;
        // demoted variable
        .shared .align 4 .b8 _ZZ11shared_tileILi32EEviPfE2As[36];
        .shared .align 16 .b8 _ZZ11shared_tileILi32EEviPfE5tiles_0[64];
        .shared .align 4 .u32 _ZZ11shared_tileILi32EEviPfE1n;
        ret;
    """,
        ".param .u32 f_param_0,\n\t.param .u64 .ptr .align 1 f_param_1,\n\t.param .f32 f_param_2\n",
    )
    assert read.parameters == {"f_param_0": "u32", "f_param_1": "u64", "f_param_2": "f32"}
    assert read.register_types == {"%p": "pred", "%rd": "b64"}
    places = [(variable.name, variable.offset, variable.size) for variable in read.shared.values()]
    assert places == [("As", 0, 36), ("tiles", 48, 64), ("n", 112, 4)]
    assert read.shared_bytes == 116


def lines(body):
    return [i.line for block in program(body).blocks for i in block]


def test_source_lines():
    assert lines(".loc 1 20 9\nret;\n.loc 1 0 5\nret;\n.loc\t1 21 9\nret;") == [20, 20, 21]


def test_lines_of_inlined_functions():
    """A function inlined from the kernel's file has its own lines; one from a header has the line that calls it."""
    assert lines("""
        .loc 1 30 1
        ret;
        .loc 1 20 9, function_name $L__info_string0, inlined_at 1 33 7
        ret;
        .loc 2 812 3, function_name $L__info_string1, inlined_at 1 34 7
        ret;
        .loc 2 900 3, function_name $L__info_string2+8, inlined_at 2 812 3
        ret;
        .loc 1 50 1
        ret;
        .loc 2 901 3, function_name $L__info_string2+8, inlined_at 2 812 3
        ret;
        .loc 2 0 3
        ret;
        .loc 2 902 3
        ret;
    """) == [30, 20, 34, 34, 50, 34, 34, 34]


def test_the_entry_is_found_among_others():
    ptx = """.visible .entry g(.param .u32 g_param_0)\n{\n\tbar.sync 0;\n\tret;\n}
             .visible .entry f(.param .u64 f_param_0)\n{\n\tret;\n}"""
    assert [i.opcode for block in parse(ptx, "f").blocks for i in block] == ["ret"]


@pytest.mark.parametrize(
    "statement",
    [
        ".branchtargets $L1, $L2;",
        "ld.global.f32 %f1, [%rd1-4];",
        "ld.global.f32 %f1, [%rd1+%rd2];",
        "selp.b32 %r1, %r2, %r3, !%p1;",
        "mov.b32 %r1, <3>;",
    ],
)
def test_what_is_not_understood_is_refused_with_its_line(statement):
    with pytest.raises(UnsupportedInstruction, match="line 17.*" + re.escape(statement.strip("; ")[:12])):
        program(f".loc 1 17 5\n{statement}\nret;")


def test_registers_of_inline_assembly_may_share_a_name_but_not_with_another_type():
    one = "{\n.reg .pred %own;\nsetp.ne.s32 %own, %r1, 0;\n@%own mov.b32 %r2, 1;\n}\n"
    read = program(f".reg .b32 %r<9>;\n{one}.loc 1 17 5\n{one}ret;", "")
    assert [each.opcode for each in read.blocks[0]] == ["setp.ne.s32", "mov.b32"] * 2 + ["ret"]
    assert read.register_types == {"%r": "b32", "%own": "pred"}
    with pytest.raises(UnsupportedInstruction, match=r"line 17.*%own.*another type"):
        program(f"{one}.loc 1 17 5\n{{ .reg .b32 %own; mov.b32 %own, 0; }}\nret;")


@pytest.mark.parametrize(
    "instruction",
    [
        "@%p1 bar.warp.sync -1",
        "@%p1 bar.sync 0",
        "brx.idx %r1, $L",
        "atom.global.v2.add.u32 %r1, [%rd1], 1",
        "atom.add.u8 %r1, [%rd1], 1",
        "atom.global.mul.u32 %r1, [%rd1], 1",
        "shfl.sync.around.b32 %r1, %r2, 1, 31, -1",
        "bar.arrive 1",
        "bar.sync 1, 64, 3",
        "ld.global.pred %p1, [%rd1]",
        "ld.global.v3.f32 {%f1, %f2, %f3}, [%rd1]",
        "ld.global.v2.f32 {%f1, _}, [%rd1]",
        "ld.global.v4.f32 {%f1}, [%rd1]",
        "cp.async.cg.shared.global [%r1], [%rd1], 8",
        "cp.async.ca.shared.global [%r1], [%rd1], 12",
        "cp.async.ca.shared.global [%r1], [%rd1], %r2",
        "cp.async.ca.shared.global [%r1], [%rd1]",
        "cp.async.ca.shared.global [%r1], [%rd1], 4, %p1",
        "cp.async.ca.shared.global [%r1], [%rd1], 4, %rd2",
        "cp.async.ca.shared.global [%r1], [%rd1], 4, 4, %rd2",
        "cp.async.ca.shared.global %r1, [%rd1], 4",
        "cp.async.ca.shared.global.L2::512B [%r1], [%rd1], 4",
        "cp.async.ca.shared::cluster.global [%r1], [%rd1], 4",
        "cp.async.ca.shared.global.L2::cache_hint [%r1], [%rd1], 4, %rd2",
        "cp.async.wait_group %r1",
        "cp.async.wait_group -1",
        "cp.async.wait_group",
        "cp.async.wait_all 0",
        "cp.async.commit_group 1",
        "cp.async.mbarrier.arrive.shared.b64 [%r1]",
        "cp.async.bulk.commit_group",
        "cp.async.bulk.wait_group 0",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16",
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1], [%r2]",
        "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2}], [%r2]",
        "mbarrier.inval.shared::cta.b64 [%r1], %r2",
        "mbarrier.arrive.noComplete.shared::cta.b64 %rd1, [%r1], %r2",
        "mbarrier.arrive_drop.shared::cluster.b64 %rd1, [%r1]",
        "mbarrier.pending_count.b64 %r1, %rd1",
        "mbarrier.arrive.shared::cluster.b64 %rd1, [%r1]",
        "mbarrier.arrive.shared::cta.b64",
        "ld.global.L2::cache_hint.u32 %r1, [%rd1]",
        "ld.global.u32 %r1, [%rd1], %rd2",
        "mbarrier.try_wait.shared::cta.b64 %p1, [%r1]",
        "mbarrier.test_wait.shared::cta.b64 %p1, [%r1], %rd1, %r2",
        "@%p2 mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2",
        "fence.proxy.async.global",
        "wgmma.wait_group.sync.aligned %r1",
        "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1, %f2, %f3, %f4}, %rd1, %rd2, 1, 1, 1",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, 1, -1, 1, 0, 1",
        "mov.u32 %r1, %smid",
        "mov.u64 %rd1, elsewhere",
        "mov.b64 {%r1, %r2, %r3}, %rd1",
        "mov.b64 {%r1, _}, %rd1",
        "mov.b64 {%r1, %r2}, {%r3, %r4}",
        "add.s32 %r1, %r2",
        "mov.u64 %r1, 0",
    ],
)
def test_what_the_simulator_does_not_know_is_refused_before_anything_runs(instruction):
    registers = ".reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;"
    read = program(f"{registers}\n.loc 1 17 5\n{instruction};\n$L:\nret;", "")
    with pytest.raises(
        UnsupportedInstruction,
        match=re.escape(f"line 17: the simulator does not know: {instruction.partition(';')[0]}"),
    ):
        Machine(read, "f", 32, {})


def test_what_was_decoded_is_free_once_it_is_forgotten():
    """It is tens of thousands of objects, which nobody should have to look through for circles."""
    read = program(".reg .f32 %f<9>;\nfma.rn.f32 %f1, %f2, %f3, %f4;\nfma.rn.f32 %f5, %f2, %f3, %f6;\nret;")
    code = weakref.ref(decode.decode(read))
    assert code()
    gc.disable()
    try:
        decode.decode.cache_clear()
        assert not code()
    finally:
        gc.enable()


def test_a_register_that_nothing_wrote():
    read = program(".reg .b32 %r<9>;\n.loc 1 17 5\nadd.s32 %r1, %r2, 1;\nret;", "")
    said = r"uninitialised: f, line 17, block 0, thread 0: reads %r2, which nothing wrote: add\.s32 %r1, %r2, 1"
    with pytest.raises(SimulationFault, match=said):
        Machine(read, "f", 32, {}).run(1)


# The same, from CUDA sources: whatever NVRTC makes of them runs right or is refused by line.

REFUSED = {
    "clock": "c[t] = clock();",
    "clock of 64 bits": "c[t] = clock64();",
    "the time": 'unsigned long long n; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(n)); c[t] = n;',
    "its lower half": 'asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(c[t]));',
    "place on the chip": 'asm("mov.u32 %0, %%smid;" : "=r"(c[t]));',
    "heap": "int* p = new int[K]; p[t] = 3; c[t] = p[K - 1];",
    "texture": "C[t] = tex2D<float>(K, 1.0f, 2.0f);",
    "surface": "surf2Dwrite<float>(A[0], K, 4, 2);",
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_unsupported_cuda_is_refused_by_line(body):
    kernel = probe(body)
    with pytest.raises(UnsupportedInstruction) as refusal:
        simulate(kernel, floats(1, 16), floats(16, 32))
    line = int(re.search(r"\bline (\d+): the simulator ", str(refusal.value))[1])
    assert 2 <= line <= len(kernel.source.splitlines())


def test_inlined_device_functions_have_their_own_lines():
    kernel = probe(
        "const float x = A[0];\nC[t] = f(x);",
        before="""
        __device__ __forceinline__ float g(float x) {
            return x * 3.0f;  // in g
        }
        __device__ float f(float x) {
            return g(x) * x;  // in f
        }""",
    )
    A, B = floats(1, 4), floats(4, 32)
    run = simulate(kernel, A, B)
    assert run.C.tolist() == [[float(A[0, 0] * 3 * A[0, 0])] * 32]
    assert run.lines[line_of(kernel, "in f")].by_class["float"] == 1
    assert run.lines[line_of(kernel, "in g")].by_class["float"] == 1
    assert run.lines[line_of(kernel, "f(x);")].global_store_requests == 1


def test_wide_loads_and_stores():
    kernel = probe(
        """
        if (t >= 8) return;
        __shared__ float4 s[8];
        const float4 x = reinterpret_cast<const float4*>(A)[t];
        s[t] = make_float4(x.w, x.z, x.y, x.x);
        const float2 y = reinterpret_cast<float2*>(s)[2 * t + 1];
        reinterpret_cast<float4*>(C)[t] = make_float4(y.x, y.y, s[t].x, s[t].y);""",
    )
    assert {"ld.global.v4", "st.shared.v4", "st.global.v4"} <= set(re.findall(r"\w+\.\w+\.v4", kernel.compiled.ptx))
    A = floats(1, 32)
    C = simulate(kernel, A, floats(32, 32)).C
    assert C.reshape(8, 4).tolist() == A.reshape(8, 4)[:, [1, 0, 3, 2]].tolist()


def test_bytes_and_halfwords():
    """Narrow loads are extended as their type says, and narrow stores leave their neighbours alone."""
    kernel = probe(
        """
        __shared__ unsigned char s[32];
        s[31 - t] = reinterpret_cast<const unsigned char*>(A)[t];
        __syncthreads();
        const int x = reinterpret_cast<const signed char*>(A)[t] + reinterpret_cast<const short*>(A)[t];
        c[t] = x * 1000 + s[t];""",
    )
    a = [0x80FF7F01 + 0x01020304 * i & 0xFFFFFFFF for i in range(16)]
    raw = b"".join(word.to_bytes(4, "little") for word in a)
    expected = [
        (
            int.from_bytes(raw[t : t + 1], "little", signed=True)
            + int.from_bytes(raw[2 * t : 2 * t + 2], "little", signed=True)
        )
        * 1000
        + raw[31 - t]
        & 0xFFFFFFFF
        for t in range(32)
    ]
    assert run_bits(kernel, a)[0].tolist() == expected


def test_shared_memory_by_a_32_bit_address():
    kernel = probe(
        """
        __shared__ float s[32];
        s[t] = A[t];
        const unsigned address = __cvta_generic_to_shared(s) + 4 * t;
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(C[t]) : "r"(address));""",
    )
    A = floats(1, 32)
    assert simulate(kernel, A, floats(32, 32)).C.tolist() == A.tolist()


def test_generic_addresses_of_shared_memory():
    """There and back they name the same place; taken for an address of shared or of global memory they name none."""
    kernel = probe(
        """
        __shared__ float s[64];
        s[t] = s[t + 32] = A[t];
        size_t address;
        asm volatile("cvta.to.shared.u64 %0, %1;" : "=l"(address) : "l"(s + 4 + t));
        asm volatile("ld.shared.f32 %0, [%1+-16];" : "=f"(C[t]) : "l"(address));""",
    )
    assert re.findall(r"cvta\.(?:to\.)?shared\.u64", kernel.compiled.ptx) == ["cvta.shared.u64", "cvta.to.shared.u64"]
    A = floats(1, 32)
    assert simulate(kernel, A, floats(32, 32)).C.tolist() == A.tolist()
    for wrong in (
        '"ld.shared.f32 %0, [%1];" : "=f"(C[t]) : "l"(s + t)',
        '"ld.global.f32 %0, [%1];" : "=f"(C[t]) : "l"(s + t)',
        '"ld.shared.f32 %0, [%1];" : "=f"(C[t]) : "r"(unsigned(size_t(s + t)))',
    ):
        kernel = probe(f"__shared__ float s[32];\ns[t] = A[t];\nasm volatile({wrong});  // here")
        with pytest.raises(SimulationFault, match="out of bounds") as caught:
            simulate(kernel, A, floats(32, 32))
        assert caught.value.line == line_of(kernel, "// here")


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("kind", ["f32", "b32", "u32", "s32"])
@pytest.mark.parametrize("load", ["ld.global", "ld.global.nc"])
def test_vectors_of_every_kind(load, kind, count):
    """A vector's elements keep their order from A through shared memory, swizzled, to C."""
    letter = "f" if kind == "f32" else "r"
    ctype = "float" if kind == "f32" else "unsigned"
    outputs = ", ".join(f'"={letter}"(x[{i}])' for i in range(count))
    inputs = ", ".join(f'"{letter}"(x[{i}])' for i in range(count))
    vector = "{" + ", ".join(f"%{i}" for i in range(count)) + "}"
    moved = "{" + ", ".join(f"%{i + 1}" for i in range(count)) + "}"
    kernel = probe(
        f"""
        if (t >= 32) return;
        {ctype} x[{count}];
        __shared__ __align__(16) float s[128];
        const unsigned address = __cvta_generic_to_shared(s) + {4 * count} * (t ^ t >> 3);
        asm volatile("{load}.v{count}.{kind} {vector}, [%{count}];" : {outputs} : "l"(A + {count} * t));
        asm volatile("st.shared.v{count}.{kind} [%0], {moved};" :: "r"(address), {inputs});
        asm volatile("ld.shared.v{count}.{kind} {vector}, [%{count}];" : {outputs} : "r"(address));
        asm volatile("st.global.v{count}.{kind} [%0], {moved};" :: "l"(C + {count} * t), {inputs});
        """,
        128,
    )
    A = floats(1, 128)
    C = simulate(kernel, A, floats(128, 128), np.zeros((1, 128), np.float32)).C
    assert C[0, : 32 * count].tolist() == A[0, : 32 * count].tolist()


def test_index_arithmetic_that_the_compiler_makes_instructions_of():
    """Rotations and bit fields: NVRTC writes shf and, for some architectures, bfe."""
    kernel = probe(
        """
        const unsigned x = a[t], y = a[31 - t];
        const unsigned rotated = (x << 7 | x >> 25) ^ __funnelshift_l(x, y, t) ^ __funnelshift_r(x, y, t);
        int field;
        asm("bfe.s32 %0, %1, 3, 6;" : "=r"(field) : "r"(x));
        c[t] = rotated + 64 * field + (t >> 2 & 5 ^ (t & 7) << 4);""",
    )
    assert {"shf.l.wrap.b32", "shf.r.wrap.b32", "bfe.s32"} <= set(
        re.findall(r"shf[\w.]+|bfe[\w.]+", kernel.compiled.ptx)
    )
    a = np.random.default_rng(3).integers(0, 2**32, 32).tolist()

    def expected(t):
        x, wide = a[t], a[31 - t] << 32 | a[t]
        field = x >> 3 & 63
        rotated = (x << 7 | x >> 25) ^ (wide << t) >> 32 ^ wide >> t
        return (rotated & 0xFFFFFFFF) + 64 * (field - 64 * (field >> 5)) + (t >> 2 & 5 ^ (t & 7) << 4) & 0xFFFFFFFF

    assert run_bits(kernel, a)[0].tolist() == [expected(t) for t in range(32)]
