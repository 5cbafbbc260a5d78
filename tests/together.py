"""Many small cases as one test, which names each case that fails: a test for each would take longer than the case."""

import functools
import inspect
import itertools


def for_each(**values):
    """Let one test try these values of an argument, or all combinations of several arguments' values.

    It is what ``parametrize`` does, with a subtest in the place of each test, and with fixtures that all of them share.
    """
    cases = list(itertools.product(*values.values()))
    assert cases, f"no {' or no '.join(values)}"

    def whole(test):
        @functools.wraps(test)
        def each(subtests, **fixtures):
            for case in cases:
                with subtests.test(", ".join(map(called, case))):
                    test(**dict(zip(values, case, strict=True)), **fixtures)

        kept = [parameter for name, parameter in inspect.signature(test).parameters.items() if name not in values]
        subtests = inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY)
        each.__signature__ = inspect.Signature([*kept, subtests])
        return each

    return whole


def called(value):
    """Return what tells a value: its label, if it has one, or its name."""
    return str(getattr(value, "label", "") or getattr(value, "name", value))
