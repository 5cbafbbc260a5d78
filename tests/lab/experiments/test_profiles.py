"""The recorded profile is of the kernels as they are, adds up, and says what the other records say."""

import pytest

import lab
import sgemm_tutorial as sg
from lab import counters, profiles
from lab.records import cards
from sgemm_tutorial import ArgumentError

from ...together import for_each

# In 12 and 13 who comes last adds up the parts, and that depends on timing.
every = for_each(kernel=sg.LADDER[:-2])


@every
def test_counters_are_those_of_the_other_recording(kernel):
    """Two runs under the profiler, of the same code: what does not depend on timing is the same."""
    here, there = profiles.measured(kernel), counters.measured(kernel, *[profiles.SIZE] * 3)
    same = {
        "FFMA": "fma_thread_instructions",
        "all": "instructions",
        "LDS": "shared_load_requests",
        "STS": "shared_store_requests",
        "LDGSTS": "copy_instructions",
    }
    assert {ours: here[ours] for ours in same} == {ours: there[theirs] for ours, theirs in same.items()}
    unread = here["LDG"] - (there["global_load_requests"] - there["copy_requests"])
    assert 0 <= unread <= profiles.SIZE**2 // 32  # loads of C that no thread takes part in, as β = 0
    assert here["STG"] == there["global_store_requests"]


@every
def test_every_product_is_one_multiply_add(kernel):
    """And α·acc + βC may be one more, here with β = 0."""
    assert 0 <= profiles.measured(kernel)["FFMA"] - profiles.SIZE**3 <= 2 * profiles.SIZE**2


@every
def test_states_of_a_warp_add_up(kernel):
    shares = profiles.states(kernel)
    assert sum(shares.values()) == pytest.approx(1)
    assert all(-0.005 <= share <= 1 for share in shares.values())
    assert shares["other"] < 0.1
    issued = 1 / profiles.measured(kernel)["cycles between a warp's instructions"]
    assert shares["issued"] == pytest.approx(issued, rel=0.02)


@every
def test_occupancy_achieved_is_not_above_what_fits(kernel):
    fit = lab.kernel_occupancy(kernel, lab.find_gpu(cards.shown()))
    assert 0.7 * 100 * fit.fraction < profiles.measured(kernel)["warps resident, %"] <= 100.5 * fit.fraction


@every
def test_the_profiler_took_as_long_as_the_benchmark(kernel):
    """The times agree within a fifth, with the clocks as they were under the profiler."""
    (point,) = lab.recorded(kernel, [profiles.SIZE]).points
    assert profiles.measured(kernel)["nanoseconds"] / 1e6 == pytest.approx(point.ms, rel=0.2)


def test_a_variant_has_no_profile():
    with pytest.raises(ArgumentError, match="kernel: got 03_shared_tile<16, 16, 16>, not in the recording profiles"):
        profiles.measured(sg.find("03").variant(BM=16, BN=16, BK=16))


@pytest.mark.parametrize("read", [profiles.measured, lambda kernel: counters.measured(kernel, *[profiles.SIZE] * 3)])
def test_an_edited_kernel_has_not_the_originals(read):
    kernel = sg.find("08")
    assert read(kernel)
    with pytest.raises(ArgumentError, match="recorded of other code"):
        read(kernel.edited(("return k / 4 * (128 / BK) % 32;", "return 0;")))


@every
def test_the_account_of_a_warp_is_complete(kernel):
    table = profiles.account(kernel)
    cycles = [float(row[1]) for row in table.rows]
    assert cycles == sorted(cycles, reverse=True)
    whole = profiles.measured(kernel)["cycles between a warp's instructions"]
    assert sum(cycles) == pytest.approx(whole, abs=0.01 * len(cycles) + 0.0005 * whole * len(cycles))
    assert set(profiles.MEANINGS) == {*profiles.STALLS, "other"}
    assert all(profiles.MEANINGS[state] == meaning for state, *_, meaning in table.rows)
