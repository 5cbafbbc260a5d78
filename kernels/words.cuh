// Loads and copies of neighbouring words: one, two or four of them at once.
#pragma once

// Neighbouring words that are read and written by one instruction.
template <int WORDS>
struct __align__(4 * WORDS) Words {
    float word[WORDS];
};

// Reads neighbours, or returns zeros where they don't exist.
template <int WORDS>
__device__ Words<WORDS> load(const float* from, bool exists)
{
    return exists ? *reinterpret_cast<const Words<WORDS>*>(from) : Words<WORDS>{};
}

// Reads neighbours that are used only once, or returns zeros where they don't exist. L1 is told not to keep them. L2 is
// told to fetch 128 bytes at once from memory, because neighbouring warps are about to ask for the rest.
template <int WORDS>
__device__ Words<WORDS> stream(const float* from, bool exists)
{
    Words<WORDS> found{};
    float (&word)[WORDS] = found.word;
    if constexpr (WORDS == 4)
        asm("{\n.reg .pred %%exists;\nsetp.ne.s32 %%exists, %5, 0;\n"
            "@%%exists ld.global.L1::no_allocate.L2::128B.v4.f32 {%0, %1, %2, %3}, [%4];\n}"
            : "+f"(word[0]), "+f"(word[1]), "+f"(word[2]), "+f"(word[3]) : "l"(from), "r"(int(exists)));
    else
        asm("{\n.reg .pred %%exists;\nsetp.ne.s32 %%exists, %2, 0;\n"
            "@%%exists ld.global.L1::no_allocate.L2::128B.f32 %0, [%1];\n}"
            : "+f"(word[0]) : "l"(from), "r"(int(exists)));
    return found;
}

// Starts an asynchronous copy of neighbours into shared memory, or of zeros where they don't exist. If the copy is not
// `wanted`, a predicate turns the instruction off. A branch around it would do the same, but the compiler would then
// no longer move multiply-adds across the barrier nearby to hide its latency.
template <int WORDS>
__device__ void copy(unsigned to, const float* from, bool exists, bool wanted)
{
    const int bytes = exists ? 4 * WORDS : 0;
    if constexpr (WORDS == 4)
        asm volatile("{\n.reg .pred %%wanted;\nsetp.ne.s32 %%wanted, %3, 0;\n@%%wanted cp.async.cg.shared.global [%0], [%1], 16, %2;\n}"
                     :: "r"(to), "l"(from), "r"(bytes), "r"(int(wanted)));
    else
        asm volatile("{\n.reg .pred %%wanted;\nsetp.ne.s32 %%wanted, %4, 0;\n@%%wanted cp.async.ca.shared.global [%0], [%1], %2, %3;\n}"
                     :: "r"(to), "l"(from), "n"(4 * WORDS), "r"(bytes), "r"(int(wanted)));
}
