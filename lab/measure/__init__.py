"""Measuring on a GPU: plans and the driver that follows them, benchmarks, Nsight Compute, sweeps over settings."""
