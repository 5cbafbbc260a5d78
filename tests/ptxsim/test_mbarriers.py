"""mbarriers on the simulator: producers and consumers that hand work to each other, and every way to get stuck."""

from dataclasses import replace

import numpy as np
import pytest

import ptxsim
from ptxsim import SimulationFault, UnsupportedInstruction

from .cuda import line_of, probe, run_bits

HELPERS = """
__device__ unsigned at(const void* p) { return __cvta_generic_to_shared(p); }
__device__ void init(unsigned long long* bar, unsigned count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at(bar)), "r"(count));  // init
}
__device__ void arrive(unsigned long long* bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(bar)) : "memory");  // arrive
}
__device__ void arrive_expect(unsigned long long* bar, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at(bar)), "r"(bytes) : "memory");
}
__device__ void complete(unsigned long long* bar, unsigned bytes)
{
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(at(bar)), "r"(bytes) : "memory");
}
__device__ void wait(unsigned long long* bar, unsigned parity)
{
    unsigned done;
    do
        asm volatile("{ .reg .pred %%done; mbarrier.try_wait.parity.shared::cta.b64 %%done, [%1], %2; "  // wait
                     "selp.u32 %0, 1, 0, %%done; }" : "=r"(done) : "r"(at(bar)), "r"(parity) : "memory");
    while (!done);
}
"""


def waiting(body, threads=64):
    """Return a probe that may use the helpers, with two mbarriers for so many arrivals as the body says."""
    return probe("    __shared__ unsigned long long full, empty;\n" + body, threads, HELPERS)


def fault(kernel, **more):
    with pytest.raises(SimulationFault) as caught:
        run_bits(kernel, range(64), **more)
    return caught.value


RELAY = """
    __shared__ unsigned done;
    if (t == 0) {{ init(&full, 32); init(&empty, 32); }}
    __syncthreads();
    if (t {role} 32) {{
        for (int i = 0; i < 7; ++i) {{ wait(&empty, i % 2 ^ 1); arrive(&full); }}
        c[t] = 1;
    }} else {{
        for (int i = 0; i < 7; ++i) {{ wait(&full, i % 2); arrive(&empty); }}
        c[t] = 2;
    }}
"""


@pytest.mark.parametrize("role", ["<", ">="])
def test_producer_and_consumer(role):
    """Whichever comes first in the program, the one that waits lets the other go on."""
    got, run = run_bits(waiting(RELAY.format(role=role)))
    first, second = (1, 2) if role == "<" else (2, 1)
    assert got.tolist() == [first] * 32 + [second] * 32
    assert run.total.by_class["wait"] == 14 and run.total.by_class["arrive"] >= 14  # a wait is over at the first try


def test_a_token_that_nobody_reads():
    body = """
    if (t == 0) init(&full, 64);
    __syncthreads();
    asm volatile("{ .reg .b64 token; mbarrier.arrive.shared::cta.b64 token, [%0]; }" :: "r"(at(&full)) : "memory");
    wait(&full, 0);
    c[t] = t;
"""
    got, _ = run_bits(waiting(body))
    assert got.tolist() == list(range(64))


def test_phases_and_bytes():
    """A phase is over when arrivals and bytes are all there, in whatever order they come; parities alternate."""
    body = """
    if (t == 0) init(&full, 1);
    __syncthreads();
    wait(&full, 1);                     // a new mbarrier's phase before the first
    if (t == 0) { complete(&full, 16); arrive_expect(&full, 48); }
    if (t == 63) complete(&full, 32);
    wait(&full, 0);
    if (t == 5) arrive(&full);
    wait(&full, 1);
    c[t] = t;
"""
    got, _ = run_bits(waiting(body))
    assert got.tolist() == list(range(64))


def test_several_phases_at_once():
    """Arrivals of one instruction that end several phases: after 64 of 32 each, the third runs."""
    body = """
    if (t == 0) init(&full, 32);
    __syncthreads();
    arrive(&full);
    wait(&full, 1);
    c[t] = 7;
"""
    assert set(run_bits(waiting(body))[0]) == {7}


@pytest.mark.parametrize("blocks", [1, 3])
def test_blocks_have_their_own(blocks):
    body = "    c += blockIdx.x * 64;\n" + RELAY.format(role="<") + "\n    c[t] = t;\n"
    got, _ = run_bits(waiting(body), columns=64 * blocks)
    assert got.tolist() == list(range(64)) * blocks


STUCK = {
    "a wrong parity": (
        "wait(&full, 1); if (t < 32) arrive(&full); wait(&full, 1);",
        0,
        ["parity 1", "1 phase is over"],
    ),
    "a missing arrival": ("if (t < 31) arrive(&full); wait(&full, 0);", 0, ["parity 0", "lacks 1 of 32 arrivals"]),
    "too many bytes expected": (
        "if (t < 31) arrive(&full); if (t == 40) { arrive_expect(&full, 96); complete(&full, 64); } wait(&full, 0);",
        0,
        ["of the mbarrier full", "lacks 32 bytes", "threads 1 to 63 do"],
    ),
    "two that wait for each other": (
        "if (t < 32) { wait(&full, 0); arrive(&empty); } else { wait(&empty, 0); arrive(&full); }",
        0,
        ["mbarrier full", "threads 32 to 63 wait for parity 0 of the mbarrier empty"],
    ),
    "one that others await at a barrier": (
        "if (t == 9) wait(&full, 0); __syncthreads();",
        0,
        ["waits at a barrier", "thread 9 waits for parity 0 of the mbarrier full"],
    ),
}


@pytest.mark.parametrize("body", STUCK.values(), ids=STUCK)
def test_deadlocks(body):
    """Ends, and says who waits where and for what."""
    statement, thread, words = body
    got = fault(waiting("if (t == 0) { init(&full, 32); init(&empty, 32); }\n__syncthreads();\n" + statement))
    assert (got.kind, got.thread) == ("deadlock", thread), got
    for word in words:
        assert word in str(got)


MISUSE = {
    "never made": ("wait(&full, 0);", "uninitialised", "which nothing has made one"),
    "used too early": ("if (t == 0) init(&full, 32); arrive(&full);", "race", "of which thread 0 made an mbarrier"),
    "made twice": ("if (t < 2) init(&full, 1);", "barrier", "makes an mbarrier of full"),
    "made again": ("if (t < 1) { init(&full, 1); init(&full, 2); }", "barrier", "makes an mbarrier of full"),
    "made for nobody": ("if (t == 0) init(&full, 0);", "barrier", "for 0 arrivals"),
    "read as a number": ("if (t == 0) init(&full, 1); c[t] = full;", "uninitialised", "full at byte 0"),
}


@pytest.mark.parametrize("body", MISUSE.values(), ids=MISUSE)
def test_misuse(body):
    statement, kind, words = body
    got = fault(waiting(statement))
    assert got.kind == kind and words in str(got), got


def test_a_fault_names_the_line():
    kernel = waiting("if (t == 0) init(&full, 32); arrive(&full);")
    assert fault(kernel).line == line_of(kernel, "// arrive")


REGISTERS = 'asm volatile("setmaxnreg.{}.sync.aligned.u32 {};");\n    c[t] = t;'


def test_registers_change_hands():
    kernel = probe(REGISTERS.format("inc", 240), 128, architecture="compute_90a")
    got, run = run_bits(kernel)
    assert got.tolist() == list(range(128)) and run.total.by_class["registers"] == 4


def test_registers_change_hands_for_whole_warps():
    got = fault(probe(f"if (t < 48) {{ {REGISTERS.format('inc', 240)} }}", 128, architecture="compute_90a"))
    assert got.kind == "divergence" and "thread 32" in str(got)


def test_registers_that_no_instruction_gives():
    with pytest.raises(UnsupportedInstruction, match="setmaxnreg"):
        run_bits(probe(REGISTERS.format("dec", 20), 128, architecture="compute_90a"))


def test_grids_that_overlap_are_run_one_after_the_other():
    """Both instructions change nothing, and cost an issue for each warp; others of that name are refused."""
    body = 'asm volatile("griddepcontrol.launch_dependents;"); asm volatile("griddepcontrol.wait;");\n    c[t] = t;'
    got, run = run_bits(probe(body, 64, architecture="compute_90"))
    assert got.tolist() == list(range(64)) and run.total.by_class["fence"] == 4


PRIMITIVES = """#include <cuda_awbarrier_primitives.h>
extern "C" __global__ void probe(const float* a, float* c)
{
    __shared__ __mbarrier_t bar;
    __shared__ float tile[64];
    int t = threadIdx.x;
    if (t == 0) __mbarrier_init(&bar, 64);
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 5; ++i) {
        tile[t] = a[i * 64 + t];
        __mbarrier_token_t token = __mbarrier_arrive(&bar);
        while (!__mbarrier_test_wait(&bar, token)) {}
        sum += tile[63 - t];
        token = __mbarrier_arrive(&bar);
        while (!__mbarrier_try_wait(&bar, token, 1000)) {}  // read
    }
    __syncthreads();
    if (t == 0) { __mbarrier_inval(&bar); __mbarrier_init(&bar, 1); }
    c[t] = sum;
}
"""


def primitives(text=PRIMITIVES):
    a, c = np.random.default_rng(1).standard_normal((5, 64), np.float32), np.zeros(64, np.float32)
    run = ptxsim.run(*ptxsim.compile(text, "probe"), grid=1, block=64, arguments={"a": a, "c": c})
    return c, a[:, ::-1].cumsum(axis=0)[-1], run


def test_cudas_primitives_of_barriers():
    """Each wait takes the token of an arrival; without one of the waits, or with an arrival too few, it is found."""
    got, right, run = primitives()
    assert np.array_equal(got, right) and not run.findings
    waits = "while (!__mbarrier_try_wait(&bar, token, 1000)) {}"
    with pytest.raises(SimulationFault, match=r"race: .* writes tile"):
        primitives(PRIMITIVES.replace(waits, ""))
    for asks in ("test", "try"):
        lacking = PRIMITIVES.replace(
            "__mbarrier_try_wait(&bar, token, 1000)", f"__mbarrier_{asks}_wait(&bar, token LIMIT)"
        )
        lacking = lacking.replace("LIMIT", ", 1000" if asks == "try" else "").replace("&bar, 64", "&bar, 65")
        with pytest.raises(SimulationFault, match="deadlock"):
            primitives(lacking)
    with pytest.raises(SimulationFault, match="nothing has made one"):
        primitives(PRIMITIVES.replace("&bar); __mbarrier_init(&bar, 1)", "&bar); __mbarrier_arrive(&bar)"))


def test_a_machine_alone_knows_what_mbarriers_order():
    """It keeps the history for that, asked or not: the first run is the only one, and no race is doubtful."""
    a, c = np.random.default_rng(1).standard_normal((5, 64), np.float32), np.zeros(64, np.float32)
    machine = ptxsim.Machine(ptxsim.parse(*ptxsim.compile(PRIMITIVES, "probe")), "probe", 64, {"a": a, "c": c})
    machine.run(1)
    assert np.array_equal(c, a[:, ::-1].cumsum(axis=0)[-1]) and not machine.execution.code.signals


def test_a_wait_that_asks_goes_on_whatever_the_answer_is():
    """Between two arrivals of a thread the phase of the first is not over; the last lane's token is of the next."""
    body = """
    if (t == 0) init(&full, 2);
    if (t == 0) init(&empty, 32);
    __syncthreads();
    auto asked = [&](unsigned long long* bar, unsigned long long token) {
        unsigned over;
        asm volatile("{ .reg .pred %%p; mbarrier.test_wait.shared.b64 %%p, [%1], %2; selp.u32 %0, 1, 0, %%p; }"
                     : "=r"(over) : "r"(at(bar)), "l"(token) : "memory");
        return over;
    };
    auto come = [&](unsigned long long* bar) {
        unsigned long long token;
        asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(token) : "r"(at(bar)) : "memory");
        return token;
    };
    if (t == 0) {
        unsigned long long token = come(&full);
        c[0] = asked(&full, token);
        come(&full);
        c[1] = asked(&full, token);
    }
    if (t >= 31) {
        unsigned long long token = come(&empty);
        if (t > 31) c[t] = asked(&empty, token);
    }
"""
    got, _ = run_bits(waiting(body))
    assert got[:2].tolist() == [0, 1]
    assert got[32:].tolist() == [1] * 31 + [0]


def test_a_warp_that_arrives_as_one_and_waits_as_one_has_met():
    """Then its lanes may read what the others wrote before; not where one lane arrives for all, or nobody waits."""
    neighbours = PRIMITIVES.replace("63 - t", "t ^ 1")
    a = np.random.default_rng(1).standard_normal((5, 64), np.float32)
    assert np.array_equal(primitives(neighbours)[0].reshape(-1, 2), a.cumsum(axis=0)[-1].reshape(-1, 2)[:, ::-1])
    everywhere = PRIMITIVES.replace("63 - t", "60 + t % 4")  # read by all warps, and then written by one of them
    assert np.array_equal(primitives(everywhere)[0], np.tile(a.cumsum(axis=0)[-1][60:], 16))
    elected = neighbours.replace("= __mbarrier_arrive(&bar)", "= 0; if (t % 32 == 0) __mbarrier_arrive(&bar)")
    elected = elected.replace("__mbarrier_test_wait(&bar, token)", "__mbarrier_test_wait_parity(&bar, 0)")
    elected = elected.replace("__mbarrier_try_wait(&bar, token, 1000)", "__mbarrier_try_wait_parity(&bar, 1, 1000)")
    asked = "while (!__mbarrier_test_wait(&bar, token)) {}"
    wrong = (
        elected.replace("&bar, 64", "&bar, 2"),
        *(neighbours.replace(asked, of) for of in ("", f"if (t & 1) {asked}")),
    )
    for text in (*wrong, everywhere.replace(asked, "")):
        with pytest.raises(SimulationFault, match=r"race: .* reads tile"):
            primitives(text)


def test_warps_that_ask_for_each_other_again_and_again():
    """As long as phases end, they are not stuck, however many."""
    relay = waiting(RELAY.format(role="<").replace("i < 7", "i < 2100"))
    got, _ = run_bits(replace(relay, source=relay.source.replace("try_wait", "test_wait")))
    assert got.tolist() == [1] * 32 + [2] * 32


def test_threads_that_drop_out_are_not_waited_for_again():
    """The phase in which they do so counts them still; with one who stays away without that, nobody goes on."""
    text = PRIMITIVES.replace(
        "    float sum", "    if (t >= 48) { __mbarrier_arrive_and_drop(&bar); return; }\n    float sum"
    )
    text = text.replace("63 - t", "47 - t").partition("    __syncthreads();\n    if (t == 0) { __mbarrier_inval")
    text = text[0] + "    c[t] = sum;\n}\n"
    got, right, _ = primitives(text)
    assert np.array_equal(got[:48], right[16:]) and not got[48:].any()
    with pytest.raises(SimulationFault, match="deadlock"):
        primitives(text.replace("_and_drop", ""))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("sum += tile", "__pipeline_arrive_on(&bar), sum += tile", "cp.async arrives at no mbarrier here"),
        ("sum += tile", "sum += __mbarrier_token_pending_count(token) + tile", "numbers of phases"),
    ],
)
def test_primitives_that_are_refused_say_why(old, new, why):
    with pytest.raises(UnsupportedInstruction, match=why):
        primitives("#include <cuda_pipeline_primitives.h>\n" + PRIMITIVES.replace(old, new))
