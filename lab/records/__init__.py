"""Recordings of figures that GPUs have given: one format, one reader, and times, which most of them are."""
