"""Record a GPU's results of the kernels in ``kernels/``: ``python -m tests.ptxsim.record``, on a GPU."""

import tempfile

import cupy
import numpy as np

import ptxsim

from .test_kernels import CASES, RECORDED, case_of, source_of


def on_gpu(name: str) -> dict[str, np.ndarray]:
    """Run a kernel's case on the GPU; return what is then in the arrays that the case tells of."""
    case = case_of(name)
    ptx, entry = ptxsim.compile(source_of(name), case.name)
    arguments = [cupy.asarray(of) if isinstance(of, np.ndarray) else of for of in case.arguments.values()]
    three = [(*(of if isinstance(of, tuple) else (of,)), 1, 1)[:3] for of in (case.grid, case.block)]
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        module = cupy.RawModule(path=file.name)  # reads the file when it is first asked for something
        kernel = module.get_function(entry)
    for variable, value in case.variables.items():
        module.get_global(variable).copy_from_host(value.ctypes.data, value.nbytes)
    kernel(*three, tuple(arguments), shared_mem=case.shared)
    found = dict(zip(case.arguments, arguments, strict=True))
    return {of: found[of].get() for of in case.expected}


if __name__ == "__main__":
    made = {f"{name}.{of}": array for name in CASES for of, array in on_gpu(name).items()}
    np.savez_compressed(RECORDED, **made)
    print(f"{len(made)} results in {RECORDED.name}")
