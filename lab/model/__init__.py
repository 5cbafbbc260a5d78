"""Predictions from the compiler and data sheets: occupancy, registers, machine code, rooflines, waves."""
