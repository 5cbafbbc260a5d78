"""Arithmetic in C++, as launches and defaults of templates have it, is evaluated as C++ does."""

import pytest

from ptxsim.cuda_source import evaluate
from ptxsim.errors import ArgumentError

NAMES = {"M": 100, "N": 7, "T": "half"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("M > 4 && N > 7", 0),
        ("M > 4 && N == 7", 1),
        ("M < 4 || N < 8", 1),
        ("M < 4 || N > 8", 0),
        ("!M", 0),
        ("!(N > 8) && M != 7", 1),
        ("(M + 15) / 16", 7),
        ("cdiv(M, 16)", 7),
        ("M > 4 && N > 7 ? 1 : 2", 2),
        ("1 << 4", 16),
        ("static_cast<unsigned>(M) % 8u", 4),
        ("N * sizeof(T)", 14),
        ("0x10UL + N", 23),
    ],
)
def test_arithmetic(text, value):
    assert evaluate(text, NAMES) == value


@pytest.mark.parametrize("text", ["M &&", "K + 1", "M / 0", "M = 4"])
def test_what_is_no_arithmetic_of_known_names_is_refused(text):
    with pytest.raises(ArgumentError, match="no whole number"):
        evaluate(text, NAMES)
