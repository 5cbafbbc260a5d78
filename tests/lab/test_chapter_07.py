"""What the page on transposing says of recorded times and counts holds on every card that has them."""

import pytest

import lab
from lab.chapters import account
from lab.chapters import vectorized as page
from lab.records import cards

OWN, LOOSE, DEEP, WIDE = page.turned()
ENDS = pytest.mark.parametrize(("flat", "turned", "more"), [OWN, WIDE], ids=["own", "wide"])
LAYOUTS = pytest.mark.parametrize(("plain", "other", "more"), page.layouts()[:4], ids=list(map(str, page.FEWER))[:4])


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


def conflicts(kernel):
    return lab.counters.measured(kernel, 4096, 4096, 4096)["shared_store_conflicts"]


def stored(more, kernel):
    """So many conflicts more of each store of 32 words are so many at 4096."""
    return more * 4096**3 / 32 / kernel.parameters["BN"]


@ENDS
def test_transposing_pays_in_the_wide_tile_only(card, flat, turned, more):
    old, new = map(page.milliseconds, (flat, turned))
    assert (new < old) == (turned is WIDE[1])


@ENDS
def test_the_conflicts_of_transposed_stores_are_those_of_the_formula(card, flat, turned, more):
    assert more == turned.parameters["BK"] / 4 - 1
    assert conflicts(turned) - conflicts(flat) == pytest.approx(stored(more, turned), rel=0.03)


@LAYOUTS
def test_the_conflicts_of_other_layouts_are_those_of_the_addresses(card, plain, other, more):
    assert conflicts(other) - conflicts(plain) == pytest.approx(stored(more, plain), rel=0.03)


@LAYOUTS
def test_their_price_is_right_but_for_the_many_conflicts_of_no_swizzle(card, plain, other, more):
    changed, price = page.change(plain, other, more)
    assert price == pytest.approx(account.milliseconds(stored(more, plain)))
    assert 1.6 < price / changed < 1.9 if more == -7 else abs(changed - price) < 0.02


def test_the_swizzle_saves_hardly_more_than_padding(card):
    padded, swizzled = (page.change(*page.layouts()[at])[0] for at in (0, 3))
    assert 0 < padded - swizzled < 0.02


def test_the_same_price_and_half_the_cost(profiled):
    (tight, price), (loose, same), (wide, low) = (page.change(*each) for each in (OWN, LOOSE, WIDE))
    assert price == same and 2 * tight < loose < same and wide < 0 < low
    for before, after in zip(OWN[:2], LOOSE[:2], strict=True):
        assert before == after.variant(BLOCKS=3) and before.parameters != after.parameters


def test_transposed_kernels_execute_fewer_instructions_besides_stores(profiled):
    for flat, turned, _ in page.turned():
        others = [of["all"] - of["STS"] for of in map(page.profile, (turned, flat))]
        assert others[0] < others[1]


def test_the_tests_of_the_price_change_little_else(profiled):
    for plain, other, _ in page.layouts()[:4]:
        old, new = map(page.profile, (plain, other))
        assert abs(new["all"] / old["all"] - 1) < 0.0015 and new["LDS"] == old["LDS"]
        blocks = [lab.kernel_occupancy(kernel, lab.card()).blocks_per_sm for kernel in (plain, other)]
        assert blocks[0] == blocks[1] == plain.parameters["BLOCKS"]


def test_an_sm_holds_equally_many_blocks_transposed_or_not():
    for (flat, turned, _), held in zip(page.turned(), (3, 2, 3, 2), strict=True):
        assert [lab.kernel_occupancy(each, lab.card()).blocks_per_sm for each in (flat, turned)] == [held, held]


def test_some_other_layouts_save_more_than_the_price(profiled):
    changed = [page.change(*each) for each in page.layouts()[4:]]
    assert [saved < 1.4 * price < 0 for saved, price in changed] == [True, True, False, True, False]
