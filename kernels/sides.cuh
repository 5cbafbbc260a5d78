// wgmma for tiles of C of which a side is any multiple of 16 from 16 to 256, and the other 64. For sm_90a.
#pragma once
#include "wgmma.cuh"

// As wgmma.cuh's macros: the names of so many registers from a ten on, without a comma after the last, and the lists.
#define last2(t) "%" #t "0, %" #t "1"
#define last4(t) last2(t) ", %" #t "2, %" #t "3"
#define last6(t) last4(t) ", %" #t "4, %" #t "5"
#define last8(t) last6(t) ", %" #t "6, %" #t "7"
#define last10(t) last8(t) ", %" #t "8, %" #t "9"
#define tens1 ten()
#define tens2 tens1 ten(1)
#define tens3 tens2 ten(2)
#define tens4 tens3 ten(3)
#define tens5 tens4 ten(4)
#define tens6 tens5 ten(5)
#define tens7 tens6 ten(6)
#define tens8 tens7 ten(7)
#define tens9 tens8 ten(8)
#define tens10 tens9 ten(9)
#define tens11 tens10 ten(10)
#define names8 last8()
#define names16 tens1 last6(1)
#define names24 tens2 last4(2)
#define names32 tens3 last2(3)
#define names40 tens3 last10(3)
#define names48 tens4 last8(4)
#define names56 tens5 last6(5)
#define names72 tens7 last2(7)
#define names80 tens7 last10(7)
#define names88 tens8 last8(8)
#define names104 tens10 last4(10)
#define names120 tens11 last10(11)
#define all8 sums4(0), sums4(4)
#define all16 all8, sums4(8), sums4(12)
#define all24 all16, sums4(16), sums4(20)
#define all32 all24, sums4(24), sums4(28)
#define all40 all32, sums4(32), sums4(36)
#define all48 all40, sums4(40), sums4(44)
#define all56 all48, sums4(48), sums4(52)
#define all64 all56, sums4(56), sums4(60)
#define all72 all64, sums4(64), sums4(68)
#define all80 all72, sums4(72), sums4(76)
#define all88 all80, sums4(80), sums4(84)
#define all96 all88, sums4(88), sums4(92)
#define all104 all96, sums4(96), sums4(100)
#define all112 all104, sums4(104), sums4(108)
#define all120 all112, sums4(112), sums4(116)
#define all128 all120, sums4(120), sums4(124)

// Starts to add a product to the sums that a warpgroup shares: of 64 × 16 elements and 16 × SIDE, both described. The 64
// are rows of A, whose K is contiguous, and the others columns of B, whose columns are. Or, TURNED, the 64 are columns of
// B and the others rows of A; the sums are then those of Cᵀ.
#define multiply_sides(SUMS, SIDE, FIRST, SECOND, TYPE, TURN, KEEP)                                                    \
    template <typename T, bool TURNED>                                                                                 \
    __device__ void multiply(float (&d)[SUMS], unsigned long long first, unsigned long long second)                    \
    {                                                                                                                  \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #SIDE "k16.f32." TYPE "." TYPE                                \
                     " {" names##SUMS "}, " FIRST ", " SECOND ", 1, 1, 1, " TURN ", " KEEP ";"                         \
                     : all##SUMS : "l"(first), "l"(second), "C"(inPtx<T>), "n"(int(TURNED)), "n"(int(!TURNED)));       \
    }
multiply_sides(8, 16, "%8", "%9", "%10", "%11", "%12")
multiply_sides(16, 32, "%16", "%17", "%18", "%19", "%20")
multiply_sides(24, 48, "%24", "%25", "%26", "%27", "%28")
multiply_sides(32, 64, "%32", "%33", "%34", "%35", "%36")
multiply_sides(40, 80, "%40", "%41", "%42", "%43", "%44")
multiply_sides(48, 96, "%48", "%49", "%50", "%51", "%52")
multiply_sides(56, 112, "%56", "%57", "%58", "%59", "%60")
multiply_sides(64, 128, "%64", "%65", "%66", "%67", "%68")
multiply_sides(72, 144, "%72", "%73", "%74", "%75", "%76")
multiply_sides(80, 160, "%80", "%81", "%82", "%83", "%84")
multiply_sides(88, 176, "%88", "%89", "%90", "%91", "%92")
multiply_sides(96, 192, "%96", "%97", "%98", "%99", "%100")
multiply_sides(104, 208, "%104", "%105", "%106", "%107", "%108")
multiply_sides(112, 224, "%112", "%113", "%114", "%115", "%116")
multiply_sides(120, 240, "%120", "%121", "%122", "%123", "%124")
multiply_sides(128, 256, "%128", "%129", "%130", "%131", "%132")
