"""Recordings: one format and one reader, for the figures that GPUs have given."""
