"""The timelines are true to scale and to the order in which host and GPU work."""

from itertools import pairwise

import numpy as np
import pytest

from lab import draw
from lab.draw import figure
from sgemm_tutorial import ArgumentError

from .test_draw import boxes, words


def test_bars_are_as_long_as_what_they_stand_for():
    picture = draw.timeline(10, 5, batch=6)
    kernels, sends = boxes(picture, figure.BLUE), boxes(picture, figure.ORANGE)
    assert len(sends) == 3 + 9 and len(kernels) == 3 + 6
    widths = [box[2] for box in kernels]
    assert np.allclose([box[2] for box in sends], 2 * np.mean(widths), atol=0.15) and np.ptp(widths) < 0.15


def test_a_single_kernel_starts_when_it_was_sent():
    picture = draw.timeline(10, 5)
    for sent, ran in zip(boxes(picture, figure.ORANGE)[:3], boxes(picture, figure.BLUE)[:3], strict=True):
        assert ran[0] == pytest.approx(sent[0] + sent[2], abs=0.2)


def test_the_batch_starts_after_all_was_sent_and_runs_without_gaps():
    picture = draw.timeline(10, 5)
    sends, kernels = boxes(picture, figure.ORANGE)[3:12], boxes(picture, figure.BLUE)[3:9]
    assert kernels[0][0] >= sends[-1][0] + sends[-1][2] - 0.2
    for one, next_one in pairwise(kernels):
        assert next_one[0] == pytest.approx(one[0] + one[2], abs=0.2)


def test_says_what_each_way_reads():
    picture = draw.timeline(8, 2.5, batch=4)
    assert "each reads 10.5 µs: the launch and the kernel" in words(picture)
    assert "4 launches in 10 µs between the two events: 2.5 µs each" in words(picture)
    assert "10.5 µs" in picture.alt and "2.5 µs each" in picture.alt


@pytest.mark.parametrize("wrong", [{"host_us": 0}, {"device_us": -1}, {"batch": 0}])
def test_refuses_what_takes_no_time(wrong):
    with pytest.raises(ArgumentError, match=f"{next(iter(wrong))}: got .*a positive number"):
        draw.timeline(**({"host_us": 1, "device_us": 1} | wrong))
