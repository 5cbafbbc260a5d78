"""Measuring on a GPU: plans and the driver that follows them, benchmarks, sensors, Nsight Compute, sweeps over settings."""
