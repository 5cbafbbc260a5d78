"""The player of panels shows what `several.steps` says."""

import pytest

from sgemm_tutorial.draw import panels
from sgemm_tutorial.draw.panels import GPUS


@pytest.mark.parametrize(("chosen", "product"), [(0, "C{p} gets A{p}{q} B{q}"), (1, "C{p}{q} is A{p} B{q}")])
def test_every_gpu_goes_round_from_its_own_panel(chosen, product):
    player = panels("panels")
    assert len(player.controls[1].values) == GPUS + 1
    for now in range(GPUS):
        (shown,) = player.shown((chosen, now))
        for p in range(GPUS):
            q, following = (p + now) % GPUS, (p + now + 1) % GPUS
            comes = f"; panel {following} comes" if now + 1 < GPUS else ""
            assert f"GPU {p}: {product.format(p=p, q=q)}{comes}." in shown.alt
            assert (f">→ GPU {p}</text>" in shown.body) == bool(comes)
    assert all(f"GPU {p} has its band of C." in player.shown((chosen, GPUS))[0].alt for p in range(GPUS))


def test_blocks_of_columns_stay_once_they_are_made():
    """With panels of rows a band is lit at every step; with panels of columns the blocks made before are shown too."""
    player = panels("panels")
    rows, columns = (len({player.shown((chosen, now))[0].body for now in range(GPUS + 1)}) for chosen in (0, 1))
    assert rows == columns == GPUS + 1
    assert player.shown((0, 0)) != player.shown((1, 0))
