"""Reads the card's sensors, to see at which clock and power a sample ran."""

from contextlib import suppress
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

    def read(self) -> tuple[int | None, float | None]:
        """Return the multiprocessors' clock in MHz and the power drawn in watts, now.

        On some cards NVML averages the power over a second.
        """
        sm_mhz = watts = None
        if nvml := self._nvml:
            with suppress(nvml.NVMLError):
                sm_mhz = nvml.nvmlDeviceGetClockInfo(self._card, nvml.NVML_CLOCK_SM)
            with suppress(nvml.NVMLError):
                (value,) = nvml.nvmlDeviceGetFieldValues(self._card, [nvml.NVML_FI_DEV_POWER_INSTANT])
                told = value.nvmlReturn == nvml.NVML_SUCCESS
                watts = (value.value.uiVal if told else nvml.nvmlDeviceGetPowerUsage(self._card)) / 1000
        return sm_mhz, watts


@lru_cache(maxsize=8)
def sensors(device: int) -> Sensors:
    """Return the sensors of the current GPU; its number is the cache's key."""
    return Sensors()


def read() -> tuple[int | None, float | None]:
    """Return what the current GPU's sensors say now: this is the timer's `watch`."""
    return sensors(cupy.cuda.Device().id).read()
