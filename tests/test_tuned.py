"""13 and 22 take tuned settings on GPUs of that name, for that code, at those sizes, and nowhere else."""

import dataclasses
import json
import types

import numpy as np
import pytest

from sgemm_tutorial import find, operands, simulator, tuned
from sgemm_tutorial.families import any_shape, autotuned
from sgemm_tutorial.launch import Place
from sgemm_tutorial.tuned import Way

AUTOTUNED, ANY_SHAPE = find("13"), find("22")
SIZE = (640, 512, 768)
SETTING = (128, 64, 8, 64, 32, 8, 8, 1, 4, 4, 3, 1)
GPU = "NVIDIA Imaginary 80GB"


HERE = Place("sm_90", 132, name=GPU)


def write(path, whole, shares=40, gpu=GPU, digest=None, size=SIZE, setting=SETTING):
    M, N, K = size
    best = {"setting": setting, "whole": whole, "shares": shares}
    point = {"M": M, "N": N, "K": K, "digest": digest or AUTOTUNED.digest, "best": best, "tried": []}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"provenance": {"gpu": gpu, "cublas": "13"}, "complete": True, "points": [point]}))


@pytest.fixture
def homes(tmp_path, monkeypatch):
    """Return the folders of tables: the reader's own, and the book's."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "mine"))
    handed_in = tmp_path / "book" / "imaginary" / "tune.json"
    monkeypatch.setattr(tuned, "TABLES", [handed_in])
    return tuned.path(GPU), handed_in


def on_gpu(size=SIZE, at=1 << 20):
    """Return a problem as if its matrices were on a GPU."""
    array = types.SimpleNamespace(data=types.SimpleNamespace(ptr=at))
    return operands.imagined(*size)._replace(A=array, B=array, C=array, on_gpu=True)


def taken(problem, kernel=AUTOTUNED):
    """Return the template arguments and the counts that a launch is given."""
    chosen = kernel.resolve(problem, HERE).kernel
    return tuple(chosen.parameters.values()), chosen.resolve(problem, HERE).division.counts


def test_what_was_tuned_is_taken_at_once(homes):
    own, _ = homes
    before = taken(on_gpu())
    write(own, 30)
    setting, counts = taken(on_gpu())
    assert own.parent.name == "sgemm-tutorial" and own.name == "tune-nvidia-imaginary-80gb.json"
    assert setting == SETTING != before[0] and (counts["whole"], counts["shares"]) == (30, 40)
    write(own, 31)
    assert taken(on_gpu())[1]["whole"] == 31, "a table that has changed is read anew"
    own.unlink()
    assert taken(on_gpu()) == before


def test_the_readers_own_goes_before_the_books(homes):
    own, book = homes
    write(book, 20)
    assert taken(on_gpu())[1]["whole"] == 20
    write(own, 30)
    assert taken(on_gpu())[1]["whole"] == 30
    write(own, 30, digest="0" * 12)
    assert taken(on_gpu())[1]["whole"] == 20, "a table of other code hides none"


@pytest.mark.parametrize("of", [{"gpu": "NVIDIA Other"}, {"digest": "0" * 12}, {"size": (640, 512, 769)}], ids=str)
def test_what_was_tuned_elsewhere_is_not_taken(homes, of):
    write(homes[0], 30, **of)
    assert taken(on_gpu())[0] != SETTING


def test_it_is_not_taken_for_other_code_for_a_variant_nor_for_what_lies_otherwise(homes):
    write(homes[0], 30)
    spaced = AUTOTUNED.edited(("step + ahead < end", "step + ahead <  end"))
    assert taken(on_gpu(), spaced)[0] == SETTING, "spacing is no change"
    other = AUTOTUNED.edited(("unsigned stride = 1", "unsigned stride = 1u"))
    assert taken(on_gpu(), other)[0] != SETTING
    mine = AUTOTUNED.variant(BM=64, BN=128)
    assert taken(on_gpu(), mine)[0] == tuple(mine.parameters.values())
    assert taken(on_gpu(at=(1 << 20) + 4))[0] != SETTING


def test_the_simulator_asks_the_model_alone(homes):
    problem = operands.imagined(*SIZE)
    before = AUTOTUNED.resolve(problem)
    write(homes[0], 30)
    assert AUTOTUNED.resolve(problem) is before
    assert taken(on_gpu())[1]["whole"] == 30


def test_a_table_that_cannot_be_read_is_none(homes):
    own, _ = homes
    before = taken(on_gpu())
    own.parent.mkdir(parents=True)
    for text in ("", "{", "[]", '{"points": 3}'):
        own.write_text(text)
        assert taken(on_gpu()) == before


def test_what_was_tuned_computes_the_same_simulated(homes):
    """A kernel that was chosen on a GPU carries its division along."""
    write(homes[0], 1, 5, size=(96, 128, 200))
    chosen = AUTOTUNED.resolve(on_gpu((96, 128, 200)), HERE).kernel
    rng = np.random.default_rng(0)
    A, B = (rng.integers(-8, 9, shape).astype(np.float32) for shape in ((96, 200), (200, 128)))
    problem = operands.check(A, B, None, 1.0, 0.0)
    simulator.run(chosen.resolve(problem), problem)
    assert (problem.C == A @ B).all()
    assert chosen.resolve(problem).division.counts == {"whole": 1, "shares": 5, "group": autotuned.GROUP}


def test_a_way_is_one_of_its_kind():
    assert len({Way(SETTING, 1, 2), Way(SETTING, 1, 2), Way(SETTING, 2, 2)}) == 2


def on_tensor_cores(kernel=ANY_SHAPE, place=HERE, size=SIZE):
    """Return the launch of a 22 that remembers nothing: name, template arguments, tiles that are shared, clusters."""
    launch = dataclasses.replace(kernel).resolve(operands.imagined(*size, types=kernel.types), place)
    of = tuple(launch.kernel.parameters.get(name) for name in any_shape.PARAMETERS)
    clusters = launch.blocks // (launch.kernel.parameters.get("CLUSTER") or 1)
    return launch.kernel.name, of, launch.division.counts.get("shared"), clusters


IN_PAIRS = tuple(any_shape.setting(64, 64, 12, 2).values())
SHARED = {"whole": 40, "shares": 64, "setting": IN_PAIRS}
"""A way of 22: all tiles of 640 × 512 are cut into shares, one for each of 64 clusters."""


def test_22_takes_what_was_tuned_for_it(homes):
    before = on_tensor_cores()
    write(homes[1], **SHARED, digest=ANY_SHAPE.digest)
    assert on_tensor_cores() == (ANY_SHAPE.name, IN_PAIRS, 40, 64) != before
    assert on_tensor_cores(place=HERE._replace(name="")) == before, "the model decides"
    assert on_tensor_cores(place=HERE._replace(name="NVIDIA Other")) == before
    write(homes[1], **SHARED, digest="0" * 12)
    assert on_tensor_cores() == before


def test_an_edited_22_goes_the_way_of_the_one_that_it_is_compared_with(homes):
    edited = ANY_SHAPE.edited(("let_next_begin();", ""))
    write(homes[1], **SHARED, digest=ANY_SHAPE.digest)
    assert edited.digest != ANY_SHAPE.digest and on_tensor_cores(edited) == on_tensor_cores()
    assert on_tensor_cores(edited)[1:] == (IN_PAIRS, 40, 64)


def test_a_table_keeps_a_product_from_the_kernel_for_thin_ones(homes):
    size = (57, 2, 18)
    assert on_tensor_cores(size=size)[0] == any_shape.THIN.name
    write(homes[1], 0, 1, digest=ANY_SHAPE.digest, size=size, setting=IN_PAIRS)
    assert on_tensor_cores(size=size) == (ANY_SHAPE.name, IN_PAIRS, 0, 1)
