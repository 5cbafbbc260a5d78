// A warp's part of a tile of C, from sums to memory: `high` blocks of 16 rows (of Cᵀ, if TURNED) 64 apart, WIDTH wide.
#pragma once
#include "rows.cuh"

template <typename TC, bool TURNED, int HIGH, int WIDTH, int HELD>
struct Output
{
    using Patch = Part<TC, TURNED>;
    static constexpr int patches = (WIDTH + 31) / 32;      // of C, one beside the other
    static constexpr int depth = (HIGH - 1) * 64 + 16;     // from the first row to the last

    TC* C;
    int M, N, m0, n0;                                      // where it begins
    float beta;
    bool whole;                                            // all of it lies in C, in fours
    float old[HELD][16] = {};                              // what C had, of so many patches

    __device__ Output(TC* C, int M, int N, int m0, int n0, bool fours, float beta)
        : C(C), M(M), N(N), m0(m0), n0(n0), beta(beta),
          whole(fours && m0 + (TURNED ? WIDTH : depth) <= M && n0 + (TURNED ? depth : WIDTH) <= N) {}

    __device__ TC* place(int h, int p) const
    {
        return C + size_t(m0 + (TURNED ? p * 32 : h * 64)) * N + n0 + (TURNED ? h * 64 : p * 32);
    }
    __device__ size_t skipped(int p) const { return TURNED ? size_t(p) * 32 * N : p * 32; }

    // Reads what C had, from a patch on.
    __device__ void read(int h, int first)
    {
        if (beta == 0.0f) return;                          // BLAS: beta = 0 never reads C
        const Patch lines(place(h, 0), N);
        #pragma unroll
        for (int p = first; p < first + HELD && p < patches; ++p)
            if (TURNED || WIDTH - p * 32 >= 32) lines.template read<Patch::wide>(old[p - first], skipped(p));
            else lines.template read<16>(old[p - first], skipped(p));
        __syncwarp();
    }

    // Writes scale · sums + beta · C; `been_read` says that the first patches have been read.
    template <int SUMS>
    __device__ void write(const float (&sums)[SUMS], float* corner, float scale, bool been_read)
    {
        if (whole) {
            #pragma unroll
            for (int h = 0; h < HIGH; ++h) {
                const Patch lines(place(h, 0), N);
                #pragma unroll
                for (int p = 0; p < patches; ++p) {
                    if (p % HELD == 0 && (h + p > 0 || !been_read)) read(h, p);
                    const float* sum = sums + h * WIDTH / 2 + p * 16;
                    const auto& had = old[p % HELD];
                    if (TURNED || WIDTH - p * 32 >= 32)
                        lines.template write<16, Patch::wide>(sum, corner, skipped(p), scale, beta, had);
                    else
                        lines.template write<8, 16>(sum, corner, skipped(p), scale, beta, had);
                }
            }
        } else {
            #pragma unroll
            for (int i = 0; i < HIGH * patches; ++i) {
                const int h = i / patches, p = i % patches;
                const int rows = M - m0 - (TURNED ? p * 32 : h * 64), cols = N - n0 - (TURNED ? h * 64 : p * 32);
                const float* sum = sums + h * WIDTH / 2 + p * 16;
                if (WIDTH - p * 32 >= 32)
                    Patch::template write_edge<16>(sum, corner, place(h, p), N, rows, cols, scale, beta);
                else
                    Patch::template write_edge<8>(sum, corner, place(h, p), N, rows, min(cols, 16), scale, beta);
            }
        }
    }
};
