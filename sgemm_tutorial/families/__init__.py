"""Kernels whose launches differ: a module a family, with the kernels of the catalogue that belong to it."""
