"""The simulator's rules for wavefronts against what Nsight Compute counted on a GPU."""

from lab.experiments import counters
from ptxsim.counting import wavefronts

from ...ptxsim.test_counting import table, wavefronts_of


def test_the_rules_hold_for_everything_the_hardware_counted():
    """Shared-memory patterns of all widths, some with lanes missing: wavefronts and bank conflicts, to the last one."""
    points = counters.patterns()
    assert {(p.kind, p.width) for p in points} == {(kind, width) for kind in ("load", "store") for width in (4, 8, 16)}
    for point in points:
        warp = {lane: point.width * element for lane, element in enumerate(point.elements) if element >= 0}
        measured = (point.wavefronts, point.conflicts)
        assert wavefronts(table([warp]), point.width, point.kind) == measured, point
        assert wavefronts_of(warp, point.width, point.kind) == measured, point
