"""On a GPU, single launches seem to take longer than they do."""

import pytest

from lab.experiments import launch_cost
from lab.experiments.launch_cost import CUBLAS, KERNEL, WAYS
from sgemm_tutorial import find, gpu

pytestmark = pytest.mark.skipif(not gpu.available(), reason="needs a GPU")


def test_single_launches_read_the_launch_too():
    for point in launch_cost.points([(CUBLAS, 256), (find(KERNEL), 256)]):
        clock, events, device = (point.us[way][0] for way in WAYS)
        assert 1 < device < 60
        assert clock > device + 2, "a launch and a wait cost the host microseconds"
        assert device < events < clock + 10


def test_at_a_large_size_it_no_longer_matters():
    for point in launch_cost.points([(CUBLAS, 2048), (find(KERNEL), 2048)]):
        clock, _, device = (point.us[way][0] for way in WAYS)
        assert clock == pytest.approx(device, rel=0.25)
