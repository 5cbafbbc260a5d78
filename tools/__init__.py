"""Maintainers' commands."""
