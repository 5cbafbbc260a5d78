// The type of C's elements, of so many bits: 32 for float, 16 for T.
#pragma once

template <typename T, int BITS>
struct ResultOf
{
    using type = T;
};
template <typename T>
struct ResultOf<T, 32>
{
    using type = float;
};
template <typename T, int BITS>
using Result = typename ResultOf<T, BITS>::type;
