"""Shows a progress bar for long work, in a terminal or a notebook."""

import sys
import warnings
from collections.abc import Iterable
from typing import Any


def bar(work: Iterable[Any] | None = None, *, total: int | None = None, show: bool | None = None, unit: str) -> Any:
    """Return a tqdm bar on stderr that disappears when it is done.

    Parameters
    ----------
    work : iterable, optional
        The items to iterate over; without them, call ``update`` on the bar.
    total : int, optional
        The number of items, if `work` has no length.
    show : bool, optional
        Whether to show it; None shows it where stderr is a terminal.
    unit : str
        The name of an item.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tqdm complains where ipywidgets is missing, and falls back to text
        from tqdm.auto import tqdm
    return tqdm(work, total=total, disable=None if show is None else not show, leave=False, file=sys.stderr, unit=unit)
