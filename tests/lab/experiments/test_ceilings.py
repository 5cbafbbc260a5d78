"""The kernels that measure ceilings do what they are counted as doing, and nothing that would hold them up."""

import json

import numpy as np
import pytest

import lab
import ptxsim
from lab import ceilings
from lab.experiments.ceilings import CHAINS, COPY, MULTIPLY_ADD, SHARED_READ, THREADS
from lab.model.ceilings import (
    ARITHMETIC,
    DRAM,
    L2,
    MMA_FP16,
    MMA_TF32,
    READ,
    SHARED,
)
from lab.records import cards
from sgemm_tutorial import ArgumentError


def run(kernel, blocks, **arguments):
    binary = kernel.build()
    return ptxsim.run(binary.ptx, binary.entry, blocks, THREADS, arguments, name=kernel.name).total


def test_multiply_add_does_as_many_as_are_counted():
    out = np.full(1, 7, np.float32)
    steps = 48
    total = run(MULTIPLY_ADD, 2, steps=np.int32(steps), a=np.float32(0.5), b=np.float32(1.0), out=out)
    assert 2 * 32 * total.by_class["fma"] == 2 * steps * CHAINS * 2 * THREADS
    assert total.global_store_requests == 0 and out[0] == 7


def test_most_of_its_loop_is_multiply_adds():
    loop = lab.sass_mix(MULTIPLY_ADD)["loop"]
    assert loop["FFMA"] / sum(loop.values()) > 0.95


def test_copy_copies_every_byte_as_often_as_is_said():
    source = np.arange(4 * 1000, dtype=np.float32)
    target = np.zeros_like(source)
    total = run(COPY, 2, times=np.int32(3), fours=np.uint64(1000), source=source, target=target)
    assert (source == target).all()
    assert total.global_load_bytes == total.global_store_bytes == 3 * 16_000
    assert total.global_load_sectors == 3 * 500


def test_shared_read_has_no_conflict():
    steps = 48
    total = run(SHARED_READ, 2, steps=np.int32(steps), out=np.zeros(1, np.float32))
    assert total.shared_load_bytes == 16 * steps * 2 * THREADS
    assert total.shared_load_conflicts == 0
    assert total.shared_load_wavefronts * 128 == total.shared_load_bytes


def test_the_recording_holds_every_ceiling():
    found = ceilings.load()
    assert list(found.by_name) == [ARITHMETIC, SHARED, L2, DRAM, READ, MMA_FP16, MMA_TF32]
    assert found[SHARED].tera_per_second > found[L2].tera_per_second > found[DRAM].tera_per_second
    assert all(c.ms_p10 <= c.ms <= c.ms_p90 for c in found.by_name.values())
    gpu = lab.find_gpu(cards.shown())
    assert 0.8 * gpu.fp32_tflops < found[ARITHMETIC].tera_per_second < gpu.fp32_tflops
    assert 0.8 * gpu.bandwidth_gbs < 1000 * found[DRAM].tera_per_second < gpu.bandwidth_gbs


def test_a_malformed_recording(tmp_path):
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"provenance": {}, "points": [{"name": "x"}]}))
    with pytest.raises(ArgumentError, match=r"c.json: got a malformed file \(Object missing required field"):
        ceilings.load(path)
