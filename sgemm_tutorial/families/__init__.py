"""Holds the kernels whose launches differ: each family has a module, with its kernels of the catalogue."""
