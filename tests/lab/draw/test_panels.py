"""The player of panels shows what `several.steps` says."""

import pytest

from lab.draw import panels
from lab.draw.panels import GPUS


@pytest.mark.parametrize(("chosen", "product"), [(0, "C{p}{q} is A{p} B{q}"), (1, "C{p} gets A{p}{q} B{q}")])
def test_every_gpu_goes_round_from_its_own_panel(chosen, product):
    player = panels("panels")
    assert len(player.controls[1].values) == GPUS + 1
    for now in range(GPUS):
        left, right = player.shown((chosen, now))
        for p in range(GPUS):
            q, following = (p + now) % GPUS, (p + now + 1) % GPUS
            comes = f"; panel {following} comes" if now + 1 < GPUS else ""
            assert f"GPU {p}: {product.format(p=p, q=q)}{comes}." in left.alt
            assert (f">→ {p}</text>" in right.body) == bool(comes)
            assert (f"panel {following} goes to GPU {p}" in right.alt) == bool(comes)
    assert all(f"GPU {p} has its band of C." in player.shown((chosen, GPUS))[0].alt for p in range(GPUS))


def test_every_step_is_another_picture():
    player = panels("panels")
    states = [(chosen, now) for chosen in (0, 1) for now in range(GPUS + 1)]
    assert len({player.shown(state)[1].body for state in states}) == len(states)
