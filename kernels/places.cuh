// Where a thread stands in its block, where a tile begins in C, and where a thread's sums belong in the tile.
#pragma once

// A thread's slice, its number there, its warp's number there, and its lane.
struct Thread {
    int slice, number, warp, lane;
};

// Where a tile begins in C, and how many rows and columns of C there are from there on.
struct Corner {
    size_t row0, col0;
    int rows, cols;
};

// Where a thread's sums belong in the tile. Its rows come in runs of `run` neighbours, one run `nextRow` rows below the
// other. Its columns come in fours, `nextCol` columns apart.
struct Places {
    int row = 0, col = 0;                                  // of its first sum
    int nextRow = 1, nextCol = 4, run = 1;
};
