"""The provenance of a measurement: the GPU, the versions of all software that took part, and the date."""

import platform
import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import cupy
import numpy as np
from cupy.cuda import nvrtc

from sgemm_tutorial import cublas, gpu

DRIVER = Path("/proc/driver/nvidia/version")


class Provenance(TypedDict):
    """The machine, the software and the date of a measurement on a GPU."""

    numpy: str
    python: str
    system: str
    date: str
    gpu: str
    compute_capability: str
    multiprocessors: int
    memory_bytes: int
    l2_bytes: int
    sm_clock_max_mhz: int
    memory_clock_max_mhz: int
    driver: str
    driver_cuda: str
    cuda_runtime: str
    nvrtc: str
    cublas: str
    cupy: str
    ncu: NotRequired[str]
    compute_sanitizer: NotRequired[str]
    power_limit_watts: NotRequired[int]


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two provenances differ in nothing but the date."""
    return {**one, "date": ""} == {**other, "date": ""}


def provenance() -> Provenance:
    """Return the provenance of a measurement made now: the GPU, the versions of all software, and the date.

    Raises
    ------
    DeviceError
        There is no GPU or no cuBLAS.
    """
    major, minor = gpu.capability()
    runtime, device = cupy.cuda.runtime, cupy.cuda.Device().id
    properties = runtime.getDeviceProperties(device)

    def attribute(name: str) -> int:
        return runtime.deviceGetAttribute(getattr(runtime, name), device)

    return {
        "gpu": properties["name"].decode(),
        "compute_capability": f"{major}.{minor}",
        "multiprocessors": attribute("cudaDevAttrMultiProcessorCount"),
        "memory_bytes": properties["totalGlobalMem"],
        "l2_bytes": attribute("cudaDevAttrL2CacheSize"),
        "sm_clock_max_mhz": attribute("cudaDevAttrClockRate") // 1000,
        "memory_clock_max_mhz": attribute("cudaDevAttrMemoryClockRate") // 1000,
        "driver": _driver(),
        "driver_cuda": _dotted(runtime.driverGetVersion()),
        "cuda_runtime": _dotted(runtime.runtimeGetVersion()),
        "nvrtc": ".".join(map(str, nvrtc.getVersion())),
        "cublas": cublas.version(),
        "cupy": cupy.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _dotted(version: int) -> str:
    """Return CUDA's 13020 as "13.2"."""
    return f"{version // 1000}.{version % 1000 // 10}"


@lru_cache(maxsize=1)
def _driver() -> str:
    """Return the driver's version from the kernel module, or else from nvidia-smi. CUDA does not tell it."""
    command = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    try:
        text = DRIVER.read_text(encoding="utf-8")
    except OSError:
        try:
            text = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            return "unknown"  # an error message may speak of another version
    match = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", text)
    return match[1] if match else "unknown"
