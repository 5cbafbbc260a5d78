"""Kernels in CUDA, compiled with NVRTC and run by the simulator alone."""

import numpy as np
import pytest

import ptxsim


def launch(source, grid, block, name=None, shared=0, **arguments):
    """Compile a kernel and run it; the options of `ptxsim.run` have an underscore before their names."""
    options = {of[1:]: arguments.pop(of) for of in list(arguments) if of.startswith("_")}
    return ptxsim.run(*ptxsim.compile(source, name), grid, block, arguments, shared, **options)


def fault(*launched, **arguments):
    """Return the fault that a launch ends in."""
    with pytest.raises(ptxsim.SimulationFault) as caught:
        launch(*launched, **arguments)
    return caught.value


def refused(*launched, **arguments):
    """Return the message that refuses a launch."""
    with pytest.raises(ptxsim.UnsupportedInstruction) as caught:
        launch(*launched, **arguments)
    return str(caught.value)


def per_thread(body, *inputs, out=np.float32, threads=None, before="", **options):
    """Run ``o[t] = ...`` with a thread per element of the inputs, which are a, b, c ..., and return the output."""
    names = "abcdefgh"[: len(inputs)]
    types = {"f": "float", "d": "double", "i": "int", "I": "unsigned", "q": "long long", "Q": "unsigned long long"}
    types |= {
        "l": "long long",
        "L": "unsigned long long",
        "B": "unsigned char",
        "b": "signed char",
        "H": "unsigned short",
    }
    types |= {"h": "short", "e": "unsigned short"}
    inputs = [np.asarray(of) for of in inputs]
    parameters = [f"const {types[of.dtype.char]}* {name}" for name, of in zip(names, inputs, strict=True)]
    result = np.zeros(threads or inputs[0].size, out)
    source = f"""{before}
__global__ void probe({", ".join([*parameters, f"{types[result.dtype.char]}* o"])}) {{
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    {body}
}}"""
    grid = max(-(-result.size // 1024), 1)
    padded = {name: np.resize(of, grid * min(result.size, 1024)) for name, of in zip(names, inputs, strict=True)}
    whole = np.resize(result, grid * min(result.size, 1024))
    launch(source, grid, min(result.size, 1024), **padded, o=whole, **options)
    return whole[: result.size]
