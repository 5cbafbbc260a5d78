"""The card's own sensors, read by NVML while it works: the clock of its multiprocessors and its power."""

from __future__ import annotations

from functools import lru_cache

import cupy


class Sensors:
    """Reads the current GPU's sensors; where NVML is missing, or says nothing, there is None."""

    def __init__(self) -> None:
        try:
            import pynvml

            pynvml.nvmlInit()
            self._nvml, self._card = pynvml, pynvml.nvmlDeviceGetHandleByPciBusId(cupy.cuda.Device().pci_bus_id)
        except Exception:  # no package, no library, no such device: times are measured all the same
            self._nvml = None

    def sm_mhz(self) -> int | None:
        """Return the clock of the multiprocessors now."""
        if self._nvml is None:
            return None
        try:
            return self._nvml.nvmlDeviceGetClockInfo(self._card, self._nvml.NVML_CLOCK_SM)
        except self._nvml.NVMLError:
            return None

    def watts(self) -> float | None:
        """Return the power drawn now; on some cards NVML averages it over a second."""
        if self._nvml is None:
            return None
        try:
            (value,) = self._nvml.nvmlDeviceGetFieldValues(self._card, [self._nvml.NVML_FI_DEV_POWER_INSTANT])
            if value.nvmlReturn == self._nvml.NVML_SUCCESS:
                return value.value.uiVal / 1000
            return self._nvml.nvmlDeviceGetPowerUsage(self._card) / 1000
        except self._nvml.NVMLError:
            return None


@lru_cache(maxsize=8)
def sensors(device: int) -> Sensors:
    """Return the sensors of the current GPU; its number is the cache's key."""
    return Sensors()
