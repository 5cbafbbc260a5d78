"""The simulator against what an H100 did: results bit for bit, counters to the last request and sector."""

import functools

import numpy as np
import pytest

import lab
import sgemm_tutorial as sg
from lab.experiments import checksums, fuzz, sanitizer
from lab.experiments.recordings import COUNTS, RECORDINGS
from lab.measure.nsight import Counted
from lab.records import cards, files
from lab.records.checks import Checksum
from lab.records.files import Recording
from sgemm_tutorial.compiler import PTX_ALONE
from sgemm_tutorial.operands import SPLIT, imagined

from ...together import for_each

pytestmark = pytest.mark.slow

CHECKSUMS = files.load("checksums", Recording[Checksum]).points
COUNTERS = files.load("counters", Recording[Counted]).points
EQUAL = ("global_load_requests", "global_load_sectors", "global_store_requests", "global_store_sectors")
KERNELS = {files.identity(kernel): kernel for kernel, _ in COUNTS["counters"]().items}
NEWER = (sg.find("12"), *lab.variants.YOUR_KERNEL) if cards.shown() == "h100" else ()
UNRECORDED = set(map(files.identity, NEWER))
"""Kernels that this card has not run."""
CHECKED = {files.identity(kernel): kernel for kernel, _ in RECORDINGS["checksums"]().items}
CHECKED = {key: kernel for key, kernel in CHECKED.items() if key not in UNRECORDED}


def test_all_is_recorded():
    """But for what was not measured yet when there was an H100."""
    missing = {name for name in RECORDINGS if not files.path_of(name).exists()}
    later = {
        "added",
        "anatomy",
        "banks",
        "clocks",
        "cold",
        "hopper",
        "hopper_again",
        "order",
        "random",
        "reach",
        "resident",
    }
    later |= {"sectors", "shapes", "split_errors", "sustained", "tensor", "tune", "two_gpus", "variant_profiles"}
    assert missing == (later if cards.shown() == "h100" else set())


@for_each(name=[name for name in RECORDINGS if files.path_of(name).exists()])
def test_recordings_are_whole_and_of_the_kernels_as_they_are(name):
    """A kernel whose code changes must be measured again: ``make record``."""
    plan = RECORDINGS[name]()
    recording = files.load(name, plan.form)
    assert recording.settings == plan.settings, "`make record` would begin it anew"
    assert recording.complete and not any(point.fault for point in recording.points)
    wanted = {key for key in sorted(plan.keys()) if key[0] not in UNRECORDED}
    assert {point.key for point in recording.points} == wanted


@pytest.mark.filterwarnings("error")
@for_each(which=CHECKED)
def test_results_are_bit_identical(which, share_runs):
    """This holds in every case, on tensor cores too, whose additions are known by measurement; see `ptxsim.tensor`.

    The simulated runs are shared with the chapters.
    """
    kernel = CHECKED[which]
    recorded = {point.case: point.sha256 for point in files.find(CHECKSUMS, kernel, "checksums")}
    got = {case: checksums.digest(kernel, of) for case, of in enumerate(checksums.CASES)}
    assert recorded == got


def test_what_is_recorded_of_21_ran_it(monkeypatch):
    """Its calls hand small problems over to 13. (Its checksums are checked above.)"""
    split, ran = sg.find("21"), []
    for name in ("others", "added"):
        items = [item for item in RECORDINGS[name]().items if item[0].name == split.name]
        assert {kernel.resolve(imagined(*size, SPLIT)).kernel.name for kernel, size in items} == {split.name}
    monkeypatch.setattr(fuzz, "fuzz", lambda kernel, problems: ran.append(kernel))
    list(fuzz.measure([(split,)]))
    monkeypatch.setattr(type(split), "__call__", lambda kernel, *_: ran.append(kernel))
    sanitizer.launched([split], np)
    assert len(ran) > 10 and {kernel.settled for kernel in ran} == {True}


def test_other_bytes_are_noticed(monkeypatch):
    assert checksums.same_bytes("02").startswith(f"{len(checksums.CASES)} of {len(checksums.CASES)} products")
    monkeypatch.setattr(checksums, "CASES", (checksums.CASES[0] | {"alpha": 2.0}, *checksums.CASES[1:]))
    assert checksums.same_bytes("02").startswith(f"{len(checksums.CASES) - 1} of {len(checksums.CASES)} products")


@functools.cache
def simulated(which, M, N, K):
    A, B = sg.matrices(M, N, K, on_gpu=False, types=KERNELS[which].types)
    return sg.simulate(KERNELS[which], A, B).total


SMALL = [point for point in COUNTERS if point.M < 1000]


@for_each(point=SMALL)
def test_counters_agree(point, share_runs):
    """All counters of a launch. The simulated run is shared with the chapters."""
    measured, total = point.counts | {"of": point}, simulated(point.identity, *point.size)
    global_accesses_agree(measured, total)
    stores_and_copies_agree(measured, total)
    multiply_adds_agree(measured, total)
    shared_stores_agree(measured, total)
    shared_loads_agree(measured, total)


PRODUCTS = {"14": 16**3, "15": 16**3, "16": 16 * 8 * 16, "17": 16 * 8 * 8}
"""Multiply-adds of one instruction of a tensor core, by the kernel that has it."""


def copies_begin_between(measured):
    """Whether copies of 16 bytes go to rows of a tile that begin between multiples of 32 bytes: see chapter 15."""
    point = measured["of"]
    begins = {"11_async_pipeline": point.label == "B at 16 bytes", "12_stream_k": True}
    begins["15_wmma_warp_tile"] = point.label != "padded by 16 and 16"
    return measured["copy_instructions"] and point.N % 4 == 0 and begins.get(point.kernel, False)


def global_accesses_agree(measured, total):
    """Exactly, except that the hardware fetches some sectors twice for copies to between multiples of 32 bytes."""
    equal = list(EQUAL)
    if copies_begin_between(measured):
        equal.remove("global_load_sectors")
        sectors, once = measured["global_load_sectors"], total.global_load_sectors
        if measured["of"].kernel == "12_stream_k":  # few of its loads are copies
            assert once < sectors < 1.015 * once
        else:
            assert once < sectors < measured["copy_sectors"] <= 2 * once
    assert {name: getattr(total, name) for name in equal} == {name: measured[name] for name in equal}


def stores_and_copies_agree(measured, total):
    """Stores to shared memory and asynchronous copies are as many."""
    assert total.shared_store_requests == measured["shared_store_requests"] + measured["copy_instructions"]
    assert total.by_class["copy"] == measured["copy_instructions"]
    nothing = measured["copy_instructions"] - measured["copy_requests"]  # copies past the end of a sum
    assert measured["copy_sectors"] <= total.global_load_sectors + nothing or copies_begin_between(measured)


def multiply_adds_agree(measured, total):
    """Multiply-adds are as many, and each element of C has a multiplication by α.

    From 07 on, some elements beyond the edge of C are multiplied by α too. 23 multiplies the elements of B that it
    reads instead, and 12 adds parts of sums. Kernels for tensor cores add nothing up with FFMA, and 17 splits and adds
    with FADD.
    """
    of = measured["of"]
    M, N = of.M, of.N
    by_alpha = total.flops - 2 * measured["fma_thread_instructions"]
    if of.kernel in ("12_stream_k", "23_register_l1"):
        assert 0 < by_alpha <= 32 * total.by_class["float"]
        return
    if of.kernel[:2] in PRODUCTS:
        assert measured["fma_thread_instructions"] == 0
        by_alpha -= 2 * PRODUCTS[of.kernel[:2]] * total.by_class["tensor"]
        most = 32 * total.by_class["float"]  # from 16 on, lanes past an edge leave C alone
        assert M * N <= by_alpha <= most and (by_alpha == most or of.kernel >= "16")
        return
    padded = M * -(-N // of.parameters["BN"]) * of.parameters["BN"]
    assert by_alpha == M * N or (of.kernel >= "07" and M * N < by_alpha <= padded)


def extra_wavefronts(measured, total):
    """Return how many wavefronts of shared stores were measured beyond the simulated ones."""
    if measured["copy_instructions"]:
        return measured["copy_wavefronts"] - total.shared_store_wavefronts
    return measured["shared_store_wavefronts"] - total.shared_store_wavefronts


def shared_stores_agree(measured, total):
    """The simulated wavefronts and a few more: lines from L2 are written into the same banks meanwhile (chapter 03),
    and an asynchronous copy may conflict in L1, where it is read (chapter 11)."""
    extra = extra_wavefronts(measured, total)
    if measured["copy_instructions"]:
        assert 0 <= extra <= measured["copy_sectors"]
    else:
        assert 0 <= extra <= 0.1 * total.shared_store_wavefronts
        assert total.shared_store_conflicts <= measured["shared_store_conflicts"]


def test_shared_stores_take_hardly_more_wavefronts_on_average():
    """But for 12, whose blocks copy a single pair of tiles at these sizes; its copies may take three times as many."""
    shares = []
    for point in SMALL:
        if point.kernel == "12_stream_k":
            continue
        measured, total = point.counts, simulated(point.identity, *point.size)
        if measured["shared_store_requests"]:
            shares.append(extra_wavefronts(measured, total) / total.shared_store_wavefronts)
    assert len(shares) > 50
    assert np.mean(shares) < 0.02
    assert np.median(shares) < 0.005


@functools.cache
def merged(which):
    """Whether ptxas made fewer loads from shared memory than PTX has."""
    made = sum(count for name, count in lab.sass_mix(KERNELS[which])["kernel"].items() if name.startswith("LDS"))
    return made < KERNELS[which].build(PTX_ALONE).ptx.count("ld.shared.")


def shared_loads_agree(measured, total):
    """Where ptxas makes one wide load of several, the machine code shows it, and fewer wavefronts are measured."""
    requests, wavefronts = measured["shared_load_requests"], measured["shared_load_wavefronts"]
    if measured["of"].kernel[:2] in PRODUCTS:  # fragments come by LDSM, which the hardware counts among wavefronts only
        assert requests < total.shared_load_requests or not total.shared_load_requests
        more = wavefronts - total.shared_load_wavefronts  # as with stores: lines from L2 are written meanwhile
        assert 0 <= more <= 0.05 * total.shared_load_wavefronts
    elif measured["copy_instructions"]:  # before copies ptxas puts loads that no thread executes: chapter 11
        assert requests > total.shared_load_requests
        assert wavefronts == total.shared_load_wavefronts
    elif merged(measured["of"].identity):
        assert requests < total.shared_load_requests
        assert wavefronts < total.shared_load_wavefronts
    else:
        assert requests == total.shared_load_requests
        assert wavefronts == total.shared_load_wavefronts
        assert measured["shared_load_conflicts"] == total.shared_load_conflicts
