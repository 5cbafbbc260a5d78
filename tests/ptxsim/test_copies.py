"""Asynchronous copies: they come out right when waited for, and every way to wait too little is a fault."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from ptxsim import SimulationFault
from ptxsim.machine import Machine
from ptxsim.ptx import parse

from ..examples import steady
from .cuda import line_of, probe, run_bits

HELPERS = """
template <int BYTES> __device__ void copy(void* to, const void* from, int size = BYTES)
{
    const unsigned x = __cvta_generic_to_shared(to);
    if (BYTES == 4)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(x), "l"(from), "r"(size));  // by 4
    if (BYTES == 8)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" :: "r"(x), "l"(from), "r"(size));  // by 8
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(x), "l"(from), "r"(size));  // by 16
}
__device__ void commit() { asm volatile("cp.async.commit_group;"); }
template <int N> __device__ void wait() { asm volatile("cp.async.wait_group %0;" :: "n"(N)); }
__device__ void wait_all() { asm volatile("cp.async.wait_all;"); }
"""


def copying(body, threads=32):
    """Return a probe that may use the helpers, with shared memory ``s`` for 256 words."""
    return probe("    __shared__ __align__(16) unsigned s[256];\n" + body, threads, HELPERS)


def fault(kernel, mark, a=range(64), columns=None, **more):
    """Run a kernel that must fail on the marked line and return the fault."""
    with pytest.raises(SimulationFault) as caught:
        run_bits(kernel, a, columns=columns, **more)
    assert caught.value.line == line_of(kernel, mark), str(caught.value)
    return caught.value


# A pipeline: while a tile of A is summed up, the next ones are on their way.

PIPELINE = """
    constexpr int STAGES = {stages}, TILE = 64;
    __shared__ unsigned s[STAGES][TILE];
    for (int tile = 0; tile < STAGES - 1; ++tile) {{
        copy<4>(&s[tile][t], a + tile * TILE + t, tile * TILE + t < K ? 4 : 0);
        commit();  // before
    }}
    unsigned sum = 0;
    for (int tile = 0; tile * TILE < K; ++tile) {{
        wait<STAGES - 2>();
        __syncthreads();
        const int next = tile + STAGES - 1, k = next * TILE + t;
        copy<4>(&s[next % STAGES][t], a + k, k < K ? 4 : 0);
        commit();  // in the loop
        for (int i = 0; i < TILE; ++i)
            sum += (i + 1) * s[tile % STAGES][(t + i) % TILE];  // read
    }}
    c[blockIdx.x * TILE + t] = sum;
"""

words = np.random.default_rng(1).integers(0, 2**32, 400).tolist()
stages = pytest.mark.parametrize("stages", [2, 3, 4])


def summed(a, threads=64):
    """Return the pipeline's result, in Python's integers."""
    a = a + [0] * (-len(a) % 64)
    weights = [(i + 1, i) for i in range(64)]
    return [
        sum(w * a[tile + (t + i) % 64] for tile in range(0, len(a), 64) for w, i in weights) % 2**32
        for t in range(threads)
    ]


@stages
@pytest.mark.parametrize("length", [1, 63, 64, 65, 128, 400])
def test_a_pipeline(stages, length):
    kernel = probe(PIPELINE.format(stages=stages), 64, HELPERS)
    a = words[:length]
    assert run_bits(kernel, a, columns=192)[0].tolist() == summed(a) * 3


@pytest.mark.parametrize("spelling", ["shared.global.L2::64B", "shared.global.L2::128B", "shared::cta.global.L2::256B"])
def test_hints_for_the_second_cache_change_nothing(spelling):
    kernel = probe(PIPELINE.format(stages=3), 64, HELPERS.replace("shared.global", spelling))
    assert run_bits(kernel, words)[0].tolist() == summed(words)


def test_memory_clobbers_change_nothing():
    """They tell the compiler not to move memory accesses across; it moves none here."""
    plain = probe(PIPELINE.format(stages=3), 64, HELPERS)
    clobbering = HELPERS.replace('group;")', 'group;" ::: "memory")').replace('"n"(N))', '"n"(N) : "memory")')
    assert clobbering.count('"memory"') == 2
    assert run_bits(plain, words)[0].tolist() == summed(words)
    assert run_bits(probe(PIPELINE.format(stages=3), 64, clobbering), words)[0].tolist() == summed(words)


BROKEN = {
    "no wait": ("wait<STAGES - 2>();", "", "in flight", "// read", "reads s at byte"),
    "one group too few": ("wait<STAGES - 2>", "wait<STAGES - 1>", "in flight", "// read", "reads s at byte"),
    "no commit before the loop": ("commit();  // before", "", "in flight", "// read", "reads s at byte"),
    "no commit in the loop": ("commit();  // in the loop", "", "in flight", "// read", "reads s at byte"),
    "no barrier": ("__syncthreads();", "", "race", "// read", "wrote since the last barrier"),
    "the barrier before the wait": (
        "wait<STAGES - 2>();\n        __syncthreads();",
        "__syncthreads();\n        wait<STAGES - 2>();",
        "race",
        "// read",
        "wrote since the last barrier",
    ),
    "into the stage being read": ("s[next % STAGES]", "s[tile % STAGES]", "in flight", "// read", "reads s at byte"),
    "into the stage read before, without a barrier": (
        "__syncthreads();\n        const int next = tile + STAGES - 1, k = next * TILE + t;\n"
        "        copy<4>(&s[next % STAGES][t], a + k, k < K ? 4 : 0);",
        "const int next = tile + STAGES - 1, k = next * TILE + t;\n"
        "        copy<4>(&s[next % STAGES][t], a + k, k < K ? 4 : 0);\n__syncthreads();",
        "race",
        "// by 4",
        "copies to s at byte",
    ),
}


@stages
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_pipeline(stages, broken):
    before, after, kind, mark, text = BROKEN[broken]
    body = PIPELINE.format(stages=stages)
    assert body.count(before) == 1
    found = fault(probe(body.replace(before, after), 64, HELPERS), mark, words)
    assert found.kind == kind
    assert text in str(found)
    if kind == "in flight":
        assert str(found).endswith("has not been waited for")


# Groups: a thread's own, in the order committed. Random programs against a model of one thread at a time.

THREADS = 10
GUARDS = ["", "@%p1 ", "@!%p1 ", "@%p2 ", "@!%p2 "]


def takes_part(guard, t):
    return {"": True, "@%p1 ": t % 2 == 1, "@!%p1 ": t % 2 == 0, "@%p2 ": t < 7, "@!%p2 ": t >= 7}[guard]


class Thread:
    """One thread's copies as PTX ISA has them: issued, then committed to a group, then complete."""

    def __init__(self):
        self.issued, self.groups, self.complete = [], [], set()

    def do(self, action, slot, pending):
        if action == "copy":
            self.issued.append(slot)
        if action in ("commit", "wait_all"):
            self.groups.append(self.issued)
            self.issued = []
        if action in ("wait", "wait_all"):
            pending = pending if action == "wait" else 0
            for group in self.groups[: len(self.groups) - pending if pending else None]:
                self.complete.update(group)


steps = st.lists(
    st.tuples(
        st.sampled_from(["copy", "copy", "commit", "wait", "wait_all"]),
        st.sampled_from(GUARDS),
        st.sampled_from([0, 0, 1, 2, 3]),
    ),
    min_size=1,
    max_size=14,
)


@steady
@given(steps)
def test_groups(program):
    text, threads, slot = [], [Thread() for _ in range(THREADS)], 0
    for action, guard, pending in program:
        where = 4 * THREADS * slot
        text.append(
            guard
            + {
                "copy": f"cp.async.ca.shared.global [%r2+{where}], [%rd2+{where}], 4;",
                "commit": "cp.async.commit_group;",
                "wait": f"cp.async.wait_group {pending};",
                "wait_all": "cp.async.wait_all;",
            }[action]
        )
        for t, thread in enumerate(threads):
            if takes_part(guard, t):
                thread.do(action, slot, pending)
        slot += action == "copy"
    source = np.arange(1, THREADS * (slot + 1) + 1, dtype=np.uint32)
    for which in range(slot):
        waiting = [
            t
            for t, thread in enumerate(threads)
            if any(which in slots for slots in (thread.issued, *thread.groups)) and which not in thread.complete
        ]
        copied = [t for t, thread in enumerate(threads) if which in thread.complete]
        got, found = read_back(text, which, source, waiting or copied)
        if waiting:
            assert found.kind == "in flight"
            assert found.thread == waiting[0]
            assert f"reads s at byte {4 * (THREADS * which + found.thread)}, whose" in str(found)
            assert f"copy by thread {found.thread} has not" in str(found)
        else:
            assert found is None
            assert got[copied].tolist() == source[THREADS * which : THREADS * (which + 1)][copied].tolist()


def read_back(text, slot, source, readers):
    """Run the program, then let some threads read what they copied to a slot; return it, or the fault."""
    mask = sum(1 << t for t in readers)
    program = parse(
        f""".visible .entry f(.param .u64 f_param_0, .param .u64 f_param_1)
        {{
            .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
            .shared .align 16 .b8 _ZZ1fvE1s[4096];
            mov.u32 %r1, %tid.x;
            ld.param.u64 %rd1, [f_param_0];
            ld.param.u64 %rd4, [f_param_1];
            mul.wide.u32 %rd3, %r1, 4;
            add.s64 %rd2, %rd1, %rd3;
            add.s64 %rd5, %rd4, %rd3;
            shl.b32 %r2, %r1, 2;
            and.b32 %r3, %r1, 1;
            setp.eq.s32 %p1, %r3, 1;
            setp.lt.u32 %p2, %r1, 7;
            {chr(10).join(text)}
            shr.u32 %r4, {mask}, %r1;
            and.b32 %r5, %r4, 1;
            setp.eq.s32 %p3, %r5, 1;
            @%p3 ld.shared.u32 %r6, [%r2+{4 * THREADS * slot}];
            @%p3 st.global.u32 [%rd5], %r6;
            ret;
        }}""",
        "f",
    )
    out = np.zeros(THREADS, np.uint32)
    try:
        Machine(program, "f", THREADS, {"source": source, "out": out}).run(1)
    except SimulationFault as found:
        return out, found
    return out, None


# What is copied.


@pytest.mark.parametrize(("width", "cache"), [(4, "ca"), (8, "ca"), (16, "ca"), (16, "cg")])
def test_sizes(width, cache):
    """Thread t copies t % (width + 1) bytes; what is left of its place becomes zero, whatever was there."""
    kernel = copying(
        f"""
        s[t] = 0xFFFFFFFF;
        __syncthreads();
        if (t < 32) {{
            const unsigned address = __cvta_generic_to_shared(s) + {width} * t;
            asm volatile("cp.async.{cache}.shared.global [%0], [%1], {width}, %2;"
                         :: "r"(address), "l"(a + {width // 4} * t), "r"(t % {width + 1}));
            asm volatile("cp.async.wait_all;");
        }}
        __syncthreads();
        c[t] = s[t];""",
        threads=128,
    )
    a = words[:128]
    raw = np.array(a, np.uint32).tobytes()
    places = [raw[width * t : width * t + t % (width + 1)].ljust(width, b"\0") for t in range(32)]
    expected = b"".join(places) + b"\xff" * (512 - 32 * width)
    got, run = run_bits(kernel, a, trace=[0])
    assert got.tobytes() == expected
    assert run.total.global_load_bytes == sum(t % (width + 1) for t in range(32))
    loads = [access for access in run.trace if (access.array, access.kind) == ("A", "load")]
    assert {t: access.width for access in loads for t in access.threads.tolist()} == {
        t: t % (width + 1) for t in range(32) if t % (width + 1)
    }


@pytest.mark.parametrize(("operands", "bytes_read"), [("4", 4), ("4, 4", 4), ("4, 2", 2), ("4, 0", 0), ("16", 16)])
def test_a_size_may_be_left_out_or_constant(operands, bytes_read):
    width = int(operands.partition(",")[0])
    kernel = copying(
        f"""
        asm volatile("cp.async.ca.shared.global [%0], [%1], {operands};"
                     :: "r"(unsigned(__cvta_generic_to_shared(s)) + {width} * t), "l"(a + {width // 4} * t));
        wait_all();
        c[t] = s[{width // 4} * t];""",
    )
    got, run = run_bits(kernel, words[:128])
    keep = (1 << 8 * min(bytes_read, 4)) - 1
    assert got.tolist() == [word & keep for word in words[:128][:: width // 4][:32]]
    assert run.total.global_load_bytes == 32 * bytes_read


def test_offsets_in_the_addresses():
    kernel = copying(
        """
        asm volatile("cp.async.cg.shared.global [%0+32], [%1+-16], 16;"
                     :: "r"(unsigned(__cvta_generic_to_shared(s)) + 16 * t), "l"(a + 4 * t + 4));
        wait_all();
        c[t] = s[8 + 4 * t + 3];""",
    )
    assert run_bits(kernel, words[:128])[0].tolist() == words[3:128:4]


def test_a_wait_comes_into_force_for_the_thread_alone():
    """Its own copies it may read without a barrier; the others' only after one."""
    own = copying("copy<4>(s + t, a + t);\nwait_all();\nc[t] = s[t];")
    assert run_bits(own, words[:32])[0].tolist() == words[:32]
    late = copying("copy<4>(s + t, a + t);\nwait_all();\n__syncthreads();\nc[t] = s[31 - t];")
    assert run_bits(late, words[:32])[0].tolist() == words[31::-1]
    for before in ("", "s[t] = 1;\n__syncthreads();\n"):  # whose line is not the copy's
        early = copying(before + "copy<4>(s + t, a + t);\nwait_all();\nc[t] = s[31 - t];  // here")
        found = fault(early, "// here")
        assert (found.kind, found.thread) == ("race", 0)
        assert "reads s at byte 124, which thread 31 wrote since the last barrier" in str(found)


def test_threads_may_copy_different_things():
    """Half of them in another order, a few not at all, some in a loop; each waits for its own."""
    kernel = copying(
        """
        s[t] = s[t + 32] = 7;
        __syncthreads();
        if (t % 2) {
            copy<4>(s + t, a + t);
            commit();
            copy<4>(s + t + 32, a + t + 32);
            commit();
            wait<1>();
        } else if (t > 6) {
            for (unsigned i = 0; i < 2; ++i) { copy<4>(s + t + 32 * (1 - i), a + t + 32 * (1 - i)); commit(); }
            wait<0>();
        }
        c[t] = s[t];""",
    )
    assert run_bits(kernel, words[:64])[0].tolist() == [words[t] if t % 2 or t > 6 else 7 for t in range(32)]


def test_a_place_is_used_again_after_the_wait():
    kernel = copying(
        """
        unsigned sum = 0;
        for (int i = 0; i < K; i += 32) {
            copy<4>(s + t, a + i + t);
            wait_all();
            sum += s[t] * (i + 1);
            s[t] = i;
        }
        c[t] = sum;""",
    )
    assert run_bits(kernel, words[:96])[0].tolist() == [
        sum(words[i + t] * (i + 1) for i in (0, 32, 64)) % 2**32 for t in range(32)
    ]


# Faults.

IN_FLIGHT = {
    "its own": ("c[t] = s[t];  // here", 0, "reads s at byte 0, whose asynchronous copy by thread 0"),
    "another's": ("c[t] = s[t + 1];  // here", 0, "reads s at byte 4, whose asynchronous copy by thread 1"),
    "after a barrier": (
        "__syncthreads();\nc[t] = s[9];  // here",
        0,
        "reads s at byte 36, whose asynchronous copy by thread 9",
    ),
    "by one thread": (
        "if (t == 5) c[t] = s[3];  // here",
        5,
        "reads s at byte 12, whose asynchronous copy by thread 3",
    ),
    "committed": ("commit();\n__syncthreads();\nc[t] = s[t];  // here", 0, "copy by thread 0"),
    "not all waited": (
        "if (t != 20) wait_all();\n__syncthreads();\nc[t] = s[31 - t];  // here",
        11,
        "reads s at byte 80, whose asynchronous copy by thread 20",
    ),
    "wait without commit": ("wait<0>();\nc[t] = s[t];  // here", 0, "reads s at byte 0, whose"),
    "a wide read": (
        "wait_all();\n__syncthreads();\nif (t < 8) copy<4>(s + 4 * t + 2, a);\n"
        "const uint4 x = reinterpret_cast<uint4*>(s)[t / 4];  // here\nc[t] = x.x + x.y + x.z + x.w;",
        0,
        "reads s at byte 0, whose asynchronous copy by thread 0",
    ),
    "a store": ("s[t] = 1;  // here", 0, "writes s at byte 0, whose asynchronous copy by thread 0"),
    "a store of another's": ("s[t ^ 1] = 1;  // here", 0, "writes s at byte 4, whose asynchronous copy by thread 1"),
}


@pytest.mark.parametrize(("body", "thread", "text"), IN_FLIGHT.values(), ids=IN_FLIGHT)
@pytest.mark.parametrize("block", [0, 2])
def test_what_is_in_flight_may_not_be_touched(body, thread, text, block):
    body = body.replace("c[t]", "c[32 * blockIdx.x + t]")
    kernel = copying(f"if (blockIdx.x != {block}) return;\ncopy<4>(s + t, a + t);\n{body}")
    found = fault(kernel, "// here", columns=96)
    assert (found.kind, found.block, found.thread) == ("in flight", block, thread)
    assert text in str(found)
    assert str(found).endswith("has not been waited for")


ONTO = {
    "a copy in flight": (
        "copy<4>(s + t, a + t);\ncopy<4>(s + t, a + t);",
        "in flight",
        0,
        "copies to s at byte 0, whose asynchronous copy by thread 0 has not been waited for",
    ),
    "part of one": (
        "copy<16>(s + 4 * t, a);\ncopy<4>(s + 3, a + t);",
        "in flight",
        0,
        "copies to s at byte 12, whose asynchronous copy by thread 0",
    ),
    "another lane's": (
        "copy<4>(s + t / 2, a + t);",
        "in flight",
        0,
        "copies to s at byte 0, whose asynchronous copy by thread 1",
    ),
    "what another reads": (
        "s[t] = 0;\n__syncthreads();\nc[t] = s[31 - t];  // there\ncopy<4>(s + t, a + t);",
        "race",
        0,
        "copies to s at byte 0, which thread 31 read in line THERE since the last barrier",
    ),
    "what another wrote": (
        "s[31 - t] = 0;  // there\ncopy<4>(s + t, a + t);",
        "race",
        0,
        "copies to s at byte 0, which thread 31 wrote in line THERE since the last barrier",
    ),
    "what another copied": (
        "copy<4>(s + 31 - t, a);\nwait_all();\ncopy<4>(s + t, a);",
        "race",
        0,
        "copies to s at byte 0, which thread 31 wrote since the last barrier",
    ),
}


@pytest.mark.parametrize(("body", "kind", "thread", "text"), ONTO.values(), ids=ONTO)
def test_copies_onto_what_is_in_use(body, kind, thread, text):
    kernel = copying(body)
    found = fault(kernel, "// by 4")
    assert (found.kind, found.thread) == (kind, thread)
    assert text.replace("THERE", str(line_of(kernel, "// there") if "// there" in body else "")) in str(found)


def test_a_thread_may_copy_onto_what_it_alone_used():
    kernel = copying("s[t] = 5;\nc[t] = s[t];\ncopy<4>(s + t, a + t);\nwait_all();\nc[t] += s[t];")
    assert run_bits(kernel, range(32))[0].tolist() == list(range(5, 37))


SOURCES = {
    "past the end": ("copy<4>(s + t, a + t + 40);", "// by 4", "out of bounds", 24, "0 bytes past its end"),
    "before the start": ("copy<4>(s + t, a + t - 1);", "// by 4", "out of bounds", 0, "4 bytes before its start"),
    "part past the end": (
        "copy<16>(s + 4 * t, a + 4 * t, t < 16 ? 16 : t - 15);",
        "// by 16",
        "out of bounds",
        16,
        "a 1-byte access to A (256 bytes), 0 bytes past its end",
    ),
    "misaligned": ("copy<16>(s + 4 * t, a + t);", "// by 16", "misaligned", 1, "a 16-byte access at address"),
    "misaligned, part": ("copy<16>(s + 4 * t, a + t, 4);", "// by 16", "misaligned", 1, "a 16-byte access at address"),
    "misaligned place": (
        "copy<16>(s + t, a + 4 * (t & 7));",
        "// by 16",
        "misaligned",
        1,
        "a 16-byte access at address 0x4",
    ),
    "misaligned place of nothing": ("copy<16>(s + t, a + 4 * t, 0);", "// by 16", "misaligned", 1, "address 0x4"),
    "place past the end": (
        "copy<4>(s + t + 240, a + t, 0);",
        "// by 4",
        "out of bounds",
        16,
        "a 4-byte access to shared memory at byte 1024 of 1024",
    ),
    "too large a size": (
        "copy<4>(s + t, a + t, t == 9 ? 8 : 4);",
        "// by 4",
        "out of bounds",
        9,
        "copies 8 bytes to a place of 4",
    ),
    "a negative size": ("copy<4>(s + t, a + t, -(t == 9));", "// by 4", "out of bounds", 9, "to a place of 4"),
    "never written": ("copy<4>(s + t, c + t);", "// by 4", "uninitialised", 0, "reads C at byte 0, never written"),
    "never written, part": (
        "c[8 * t] = 0;\ncopy<8>(s + 2 * t, c + 8 * (t / 2), t % 2 ? 4 : 8);",
        "// by 8",
        "uninitialised",
        0,
        "reads C at byte 4, never written",
    ),
    "shared memory": ("copy<4>(s + t, s + t + 32);", "// by 4", "out of bounds", 0, "in no array"),
}


@pytest.mark.parametrize(("body", "mark", "kind", "thread", "text"), SOURCES.values(), ids=SOURCES)
def test_sources_and_places(body, mark, kind, thread, text):
    found = fault(copying(body), mark, columns=256 if "8 * t" in body else None)
    assert (found.kind, found.thread) == (kind, thread)
    assert text in str(found)


@pytest.mark.parametrize("source", ["a + t + 40", "a + (size_t(1) << 50)", "c + t", "(char*)a + 1"])
def test_where_nothing_is_read_nothing_is_checked(source):
    """A source out of bounds, never written or misaligned does no harm as long as no byte of it is read."""
    kernel = copying(
        f"copy<4>(s + t, t < 9 ? (void*)(a + t) : (void*)({source}), t < 9 ? 4 : 0);\nwait_all();\nc[t] = s[t];",
    )
    assert run_bits(kernel, words[:64])[0].tolist() == words[:9] + [0] * 23


# Counters and traces.


def test_copies_counted_by_hand():
    """A copy is a request and its sectors in global memory, and a store of its width in shared memory."""
    kernel = copying(
        """
        copy<4>(s + t, a + 2 * t, t < 40 ? 4 : 0);  // every other word
        if (t < 16) copy<16>(s + 64 + 8 * t, a + 4 * t);  // every other quad
        commit();
        wait<0>();
        c[t] = s[t];""",
        threads=64,
    )
    run = run_bits(kernel, range(128), trace=[0])[1]
    four, sixteen = run.lines[line_of(kernel, "// by 4")], run.lines[line_of(kernel, "// by 16")]
    assert (four.by_class["copy"], sixteen.by_class["copy"]) == (2, 1)
    assert (four.global_load_requests, four.global_load_sectors, four.global_load_bytes) == (2, 8 + 2, 160)
    assert (four.shared_store_requests, four.shared_store_wavefronts, four.shared_store_bytes) == (2, 2, 256)
    assert (sixteen.global_load_requests, sixteen.global_load_sectors, sixteen.global_load_bytes) == (1, 8, 256)
    assert (sixteen.shared_store_requests, sixteen.shared_store_bytes) == (1, 256)
    assert (sixteen.shared_store_wavefronts, sixteen.shared_store_conflicts) == (4, 2)  # 2 for a quarter warp
    total = run.total
    assert (total.by_class["copy"], total.by_class["commit"], total.by_class["wait"]) == (3, 2, 2)
    assert total.by_class["global load"] == total.by_class["shared store"] == 0
    assert total.instructions == sum(total.by_class.values())
    by_four, by_sixteen = line_of(kernel, "// by 4"), line_of(kernel, "// by 16")
    assert [
        (access.line, access.space, access.kind, access.array, access.width, len(access.threads))
        for access in run.trace
        if access.line in (by_four, by_sixteen)
    ] == [
        (by_four, "global", "load", "A", 4, 40),
        (by_four, "shared", "store", "s", 4, 64),
        (by_sixteen, "global", "load", "A", 16, 16),
        (by_sixteen, "shared", "store", "s", 16, 16),
    ]
    assert run.trace[0].offsets.tolist() == [8 * t for t in range(40)]
    assert run.trace[1].offsets.tolist() == [4 * t for t in range(64)]


def test_a_warp_that_reads_nothing_makes_no_request():
    kernel = copying("copy<4>(s + t, a + t, 0);\nwait_all();\nc[t] = s[t];", threads=50)
    got, run = run_bits(kernel, trace=[0])
    assert not got.any()
    assert run.total.global_load_requests == run.total.global_load_sectors == run.total.global_load_bytes == 0
    assert (run.total.shared_store_requests, run.total.shared_store_bytes) == (2, 200)
    assert [access.space for access in run.trace] == ["shared", "shared", "global"]
