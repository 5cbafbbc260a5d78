// Lets the grids of a stream overlap: the next one sets itself up while this one ends. For sm_90 and newer.
#pragma once

// Allows the next grid of the stream to begin once all blocks of this one have come here or ended.
__device__ void let_next_begin() { asm volatile("griddepcontrol.launch_dependents;"); }

// Waits until the grid before this one has ended and its results can be read.
__device__ void wait_for_last() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
