"""Measuring on a GPU: plans and how they are followed, benchmarks, Nsight Compute, sweeps over settings."""
