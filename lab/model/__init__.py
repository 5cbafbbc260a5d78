"""What compiler and data sheets predict of a kernel: occupancy, registers, machine code, rooflines, waves."""
