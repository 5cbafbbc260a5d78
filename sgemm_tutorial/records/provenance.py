"""What identifies a measurement: the GPU, the versions of all that took part, and the date."""

from __future__ import annotations

import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from cupy.cuda import nvrtc

from .. import cublas, gpu

DRIVER = Path("/proc/driver/nvidia/version")


def provenance() -> dict[str, Any]:
    """Return what identifies a measurement: the GPU, the versions of all that takes part, and the date.

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


def _driver() -> str:
    """Return the driver's version, which CUDA does not tell: from the kernel module, or else nvidia-smi."""
    command = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    try:
        text = DRIVER.read_text(encoding="utf-8")
    except OSError:
        try:
            text = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            return "unknown"
    match = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", text)
    return match[1] if match else "unknown"
