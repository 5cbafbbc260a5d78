"""Cases that are one test: each is tried, and each that fails is named."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from sgemm_tutorial import find

from .together import for_each


class Subtests:
    """pytest's, but for reports: it notes who has failed."""

    def __init__(self):
        self.tried, self.failed = [], []

    @contextmanager
    def test(self, name):
        self.tried.append(name)
        try:
            yield
        except AssertionError:
            self.failed.append(name)


def test_each_case_that_fails_is_named():
    kernels = [find("01"), find("02").variant(BN=4), find("03").edited(("acc", "sum"), label="renamed")]
    told, fixture = Subtests(), SimpleNamespace(least=3)

    @for_each(kernel=kernels, number=(2, 3))
    def test(kernel, number, fixture):
        assert number >= fixture.least and kernel is not kernels[1]

    test(subtests=told, fixture=fixture)
    assert told.tried == [f"{name}, {n}" for name in ("01_naive", "02_coalesced", "renamed") for n in (2, 3)]
    assert told.failed == ["01_naive, 2", "02_coalesced, 2", "02_coalesced, 3", "renamed, 2"]


def test_no_case_is_no_test():
    with pytest.raises(AssertionError, match="no kernel"):
        for_each(kernel=[])


@for_each(number=range(3))
def test_pytest_gives_the_fixtures_that_are_left(number, tmp_path):
    (tmp_path / str(number)).touch()
    assert len(list(tmp_path.iterdir())) == number + 1
