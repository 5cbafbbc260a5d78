"""What the page on transposing says of recorded times and counts holds on every card that has them."""

import pytest

import lab
import sgemm_tutorial as sg
from lab.chapters import account, conflict_free
from lab.chapters import vectorized as page
from lab.records import cards

OWN, *_, WIDE = page.turned()
ENDS = pytest.mark.parametrize(("flat", "turned", "more"), [OWN, WIDE], ids=["own", "wide"])
LAYOUTS = pytest.mark.parametrize(("plain", "other", "more"), page.layouts(), ids=map(str, page.FEWER))


@pytest.fixture(params=cards.recorded())
def card(request, monkeypatch):
    monkeypatch.setenv(cards.VARIABLE, request.param)
    return request.param


@pytest.fixture
def profiled(monkeypatch):
    """A card with profiles of variants."""
    monkeypatch.setenv(
        cards.VARIABLE, next(of for of in cards.recorded() if "variant_profiles" in cards.recordings(of))
    )


def conflicts(kernel, of="store"):
    return lab.counters.measured(kernel, 4096, 4096, 4096)[f"shared_{of}_conflicts"]


def stored(more, kernel):
    """So many conflicts more of each store of 32 words are so many at 4096."""
    return more * 4096**3 / 32 / kernel.parameters["BN"]


@ENDS
def test_transposing_pays_in_the_wide_tile_and_08_does_without_its_price(card, flat, turned, more):
    eighth = page.milliseconds(sg.find("08").variant(**turned.parameters))
    old, new = map(page.milliseconds, (flat, turned))
    assert (new < old) == (turned is WIDE[1]) and eighth < 0.95 * min(old, new)


@ENDS
def test_the_conflicts_of_transposed_stores_are_those_of_the_formula(card, flat, turned, more):
    assert more == turned.parameters["BK"] / 4 - 1
    assert conflicts(turned) - conflicts(flat) == pytest.approx(stored(more, turned), rel=0.03)
    loads = [conflicts(kernel, "load") / 1e6 for kernel in (flat, turned)]
    assert 268 < min(loads) < max(loads) < 269 if turned is WIDE[1] else max(loads) < 0.1


def test_08_has_hardly_any_conflicts(card):
    eighth = sg.find("08").variant(**WIDE[1].parameters)
    assert conflicts(eighth, "load") < 1e5 and conflicts(eighth) < 0.3 * conflicts(WIDE[1])


@LAYOUTS
def test_the_conflicts_of_other_layouts_are_those_of_the_addresses(card, plain, other, more):
    assert conflicts(other) - conflicts(plain) == pytest.approx(stored(more, plain), rel=0.03)


@LAYOUTS
def test_their_price_is_right_but_for_the_many_conflicts_of_no_swizzle(card, plain, other, more):
    changed, price = page.change(plain, other, more)
    assert price == pytest.approx(account.milliseconds(stored(more, plain)))
    assert 1.6 < price / changed < 1.9 if more == -7 else abs(changed - price) < 0.02


def test_only_the_lowest_price_is_paid_back_and_all_are_too_high(profiled):
    found = [page.change(*each) for each in page.turned()]
    assert [change > 0 for change, _ in found] == [True, True, True, False] and all(of[0] < of[1] for of in found)
    assert min(price for _, price in found) == found[-1][1]
    for flat, turned, _ in page.turned():
        others = [of["all"] - of["STS"] for of in map(page.profile, (turned, flat))]
        assert others[0] < others[1], "fewer instructions besides stores"


def test_transposed_the_compiler_wants_fewer_registers():
    for tile in (page.OWN, page.JUNSTAR92):
        flat, turned = (lab.resources(kernel) for kernel in page.pair(tile, 1))
        assert turned.registers < flat.registers and flat.spill_store_bytes == 0
    spilled = [lab.resources(kernel).spill_store_bytes > 0 for kernel in page.turned()[2][:2]]
    assert spilled == [True, False]
    assert all(lab.resources(of).registers < lab.resources(of.variant(BLOCKS=1)).registers for of in (OWN[0], WIDE[0]))


@pytest.mark.parametrize("tile", [(64, 128, 32, 8, 8, 3), (128, 128, 8, 8, 8, 2)])
def test_most_of_what_08_gains_is_not_the_swizzles(profiled, tile):
    parameters = dict(zip(sg.find("08").parameters, tile, strict=True))
    seven, eight = (page.milliseconds(sg.find(name).variant(**parameters)) for name in ("07", "08"))
    plain = page.milliseconds(lab.find_variant("08", "not swizzled", **parameters))
    assert seven - plain > plain - eight > 0


def test_the_tests_of_the_price_change_little_else_and_other_layouts_do(profiled):
    more, registers = {}, {}
    for BK in (32, 16, 8):
        of = conflict_free.paddings(BM=128 if BK == 8 else 64, BN=128, BK=BK, BLOCKS=2 if BK == 8 else 3)
        plain = page.profile(of["not swizzled"])
        for label in ("padded by 4", "padded by 1", ""):
            now = page.profile(of[label])
            more[label, BK] = now["all"] / plain["all"] - 1
            reads = now["LDS"] / plain["LDS"]
            assert reads > 1.3 if label == "padded by 1" else reads == 1
            registers[label, BK] = lab.resources(of[label]).registers - lab.resources(of["not swizzled"]).registers
    assert all(abs(more[of]) < 0.0015 for of in page.FEWER)
    assert sorted(registers[of] for of in page.FEWER) == [0, 0, 0, 2], "one takes two registers more"
    assert all(0.019 < more["padded by 1", BK] < 0.026 for BK in (32, 16, 8))
    assert [round(100 * more["", BK]) for BK in (16, 8)] == [-1, 1]
    padded, swizzled = (page.change(*page.layouts()[at])[0] for at in (0, 3))
    assert 0 < padded - swizzled < 0.02, "the last three of seven conflicts are nearly free"
