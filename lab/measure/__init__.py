"""Measuring on a GPU: plans and their driver, benchmarks, sensors, Nsight Compute, sweeps over settings."""
