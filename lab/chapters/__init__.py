"""Computations, tables and assertions of single chapters, one module for each chapter that needs one."""
