"""Re-execute the book's notebooks in place on this machine's GPU: ``make live``.

A notebook is written only when all of it ran, so stopping in the middle loses the notebook in progress and nothing
else. Nothing but outputs and execution counts ever changes: no timings, no version of this machine's Python, nothing of
bars that are gone, and of an error shown on purpose the message alone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import copy
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from tqdm import tqdm

from lab.paths import RESULTS
from sgemm_tutorial import gpu

BOOK = RESULTS.parent
LIVE_TAG = "nbval-ignore-output"


def executed(
    path: Path, keep_live: bool = False, after_cell: Callable[[], object] = lambda: None
) -> nbformat.NotebookNode:
    """Return the notebook with every cell run afresh, in order, in its own folder.

    Parameters
    ----------
    path : Path
        The notebook; the file is read, not written.
    keep_live : bool
        Whether live cells that have outputs keep them. They are run all the same.
    after_cell : callable
        Called without arguments after each code cell.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        A cell raised that is not tagged ``raises-exception``.
    RuntimeError
        The kernel did not start, or died.
    KeyboardInterrupt
        Ctrl-C was pressed.
    """
    notebook = nbformat.read(path, as_version=4)
    stored = copy.deepcopy(notebook)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],  # or each kernel warns, across the bar, that TCP is not encrypted
        timeout=None,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_executed=lambda **_: after_cell(),
    )
    with ThreadPoolExecutor(1) as thread:  # in the main thread nbclient would see to Ctrl-C itself, and fail
        running = thread.submit(client.execute)
        try:
            running.result()
        except KeyboardInterrupt:
            while not running.done():
                with contextlib.suppress(RuntimeError, AttributeError):  # no kernel has started yet
                    asyncio.run(client.km.signal_kernel(signal.SIGKILL))
                time.sleep(0.1)
            raise
    notebook.metadata = stored.metadata
    for cell, before in zip(notebook.cells, stored.cells, strict=True):
        if keep_live and LIVE_TAG in cell.metadata.get("tags", []) and before.outputs:
            cell.outputs = before.outputs
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _erased(output)]
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                output.traceback = output.traceback[-1:]  # the message; the frames name this machine's folders
    return notebook


def _erased(output: nbformat.NotebookNode) -> bool:
    """Whether this is what a bar leaves behind when it has blanked itself out."""
    return output.output_type == "stream" and output.name == "stderr" and not output.text.strip()


def write(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Replace the file in one step: whoever reads it sees the old notebook or the new one, never half of one."""
    partial = path.with_suffix(".ipynb.partial")
    try:
        nbformat.write(notebook, partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.live", description=__doc__)
    parser.add_argument("notebooks", nargs="*", type=Path, metavar="NOTEBOOK", help="default: every one in book/")
    parser.add_argument(
        "--keep-live",
        action="store_true",
        help="live cells keep the outputs they have: refreshes the rest of a notebook on a machine without a GPU",
    )
    options = parser.parse_args(arguments)
    if not options.keep_live and not gpu.available():
        parser.error("no GPU is visible to CuPy, and live cells show what a GPU did; see --keep-live")
    paths = options.notebooks or sorted([*BOOK.glob("*.ipynb"), *BOOK.glob("deeper/*.ipynb")])

    for number, path in enumerate(paths, start=1):
        total = sum(cell.cell_type == "code" for cell in nbformat.read(path, as_version=4).cells)
        try:
            with tqdm(desc=f"{path.stem} ({number} of {len(paths)})", total=total, unit="cell") as bar:
                write(executed(path, options.keep_live, bar.update), path)
        except CellExecutionError as error:
            print(f"{error}\n{path.name} is as it was; the {number - 1} before it are written.", file=sys.stderr)
            return 1
        except (KeyboardInterrupt, RuntimeError) as error:
            why = f" ({error})" if str(error) else ""
            print(f"Stopped{why}: {path.name} is as it was; the {number - 1} before it are written.", file=sys.stderr)
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
