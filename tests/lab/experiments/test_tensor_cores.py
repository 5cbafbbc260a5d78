"""Recordings of tensor cores beside times: lasting load, errors, ceilings, sectors."""

import pytest

from lab import ceilings
from lab.experiments import split_errors, sustained
from lab.model.ceilings import ARITHMETIC, L2, MMA_FP16, MMA_TF32, READ
from lab.records import cards
from sgemm_tutorial import ArgumentError, cublas, find


def test_lasting_load():
    """Cycles are time by clock; the clock is the card's own at most."""
    for kernel in (find("15"), find("16"), cublas.gemm_ex):
        point = sustained.of(kernel)
        assert point.cycles == pytest.approx(point.ms * point.sm_mhz * 1000)
        assert point.sm_mhz <= 1980 and point.watts > 300
        assert point.joules is None or point.joules == pytest.approx(point.watts * point.ms / 1e3, rel=0.1)
    with pytest.raises(ArgumentError, match=r"05_thread_tile_2d<.*not in the recording sustained"):
        sustained.of(find("05"))


def test_split_is_as_exact_as_cublas():
    for kind in split_errors.KINDS:
        for K in split_errors.DEPTHS:
            theirs = split_errors.of(cublas.sgemm, kind, K)
            for name in ("17_tf32x3", "21_tf32x3_wgmma"):
                ours = split_errors.of(find(name), kind, K)
                assert 0 < ours.worst <= theirs.worst and 0 < ours.rms <= theirs.rms
    with pytest.raises(
        ArgumentError, match=r"kind, K: got odd, 2048, needs what was recorded of 17_tf32x3: normal, 2048; "
    ):
        split_errors.of(find("17"), "odd", 2048)


def test_later_ceilings_are_there_or_left_out(monkeypatch):
    measured = ceilings.load()
    assert measured[READ].tera_per_second > measured[L2].tera_per_second
    assert measured[MMA_FP16].tera_per_second == pytest.approx(2 * measured[MMA_TF32].tera_per_second, rel=0.02)
    monkeypatch.setenv(cards.VARIABLE, "h100")
    assert ARITHMETIC in ceilings.load().by_name and READ not in ceilings.load().by_name
