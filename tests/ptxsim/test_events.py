"""Events of a traced block beside its accesses: their order, their threads and places, until a fault."""

import pytest

from ptxsim import SimulationFault

from .cuda import line_of, run_bits
from .test_copies import copying
from .test_mbarriers import RELAY, waiting

COPIES = """
    copy<4>(&s[t], a + t);
    if (t < 32) commit();
    copy<4>(&s[64 + t], a + t);
    commit();
    wait<1>();
    __syncthreads();  // meet
    wait<0>();
    __syncthreads();
    c[t] = s[64 + t];
"""


def test_groups_of_copies_and_barriers():
    kernel = copying(COPIES, 64)
    _, run = run_bits(kernel, range(64), trace=[0])
    commit, wait, meet = [line_of(kernel, mark) for mark in ("void commit()", "void wait()", "// meet")]
    found = [(e.kind, e.line, e.pending, e.threads.tolist()) for e in run.events]
    everyone = list(range(64))
    assert found[:5] == [
        ("commit copies", commit, 0, everyone[:32]),
        ("commit copies", commit, 0, everyone),
        ("wait for copies", wait, 1, everyone),
        ("barrier", meet, 0, everyone),
        ("wait for copies", wait, 0, everyone),
    ]
    assert [e.kind for e in run.events[5:]] == ["barrier"]
    assert [e.before for e in run.events] == [2, 4, 4, 4, 4, 4]  # a copy is a load and a store
    assert len(run.trace) == 6 and {e.block for e in run.events} == {0}


def test_mbarriers():
    """One half waits for the other, which waits for it: each wait is asked for and ends, after the other's arrival."""
    _, run = run_bits(waiting(RELAY.format(role="<")), trace=[0])
    for role, asks, arrives in ((0, "empty", "full"), (32, "full", "empty")):
        mine = [(e.kind, e.array, e.offset) for e in run.events if e.kind != "barrier" and e.threads[0] == role]
        places = {name: place for kind, *place in mine for name in [asks if kind != "arrive" else arrives]}
        expected = [(kind, *places[name]) for kind, name in (("ask", asks), ("go on", asks), ("arrive", arrives))]
        assert mine == expected * 7 and places["full"] != places["empty"]
    order = [(e.kind, int(e.threads[0])) for e in run.events if e.kind in ("arrive", "go on")]
    assert [pair for pair in order if pair in (("arrive", 0), ("go on", 32))] == [("arrive", 0), ("go on", 32)] * 7


def test_a_fault_brings_what_was_done_before():
    kernel = copying(COPIES.replace("wait<0>();", ""), 64)
    with pytest.raises(SimulationFault) as caught:
        run_bits(kernel, range(64), trace=[0])
    assert [e.kind for e in caught.value.events] == ["commit copies"] * 2 + ["wait for copies"] + ["barrier"] * 2
    assert len(caught.value.trace) == 4 and "has not been waited for" in caught.value.detail


def test_blocks_that_are_not_traced_leave_nothing():
    _, run = run_bits(copying(COPIES, 64), range(64))
    assert run.events == [] and run.trace == []
