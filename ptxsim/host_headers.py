"""The host's headers as NVRTC can read them.

NVRTC has no headers of the host's C and C++ libraries. Kernels include them for a handful of names, which `ALWAYS` and
`HEADERS` declare.
"""

import re

GIVEN = "nvcc.h"
"""The name of the text that stands before every source that is prepared for NVRTC."""
INTEGERS = "".join(
    f"typedef {sign}{kind} {'u' * bool(sign)}int{bits}_t;\n"
    for bits, kind in ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))
    for sign in ("", "unsigned ")
).replace("typedef char", "typedef signed char")
INTEGERS += "typedef int64_t intptr_t;\ntypedef uint64_t uintptr_t;\n"
FLOATS = (
    "#define FLT_MAX 3.402823466e+38f\n#define FLT_MIN 1.175494351e-38f\n#define FLT_EPSILON 1.192092896e-07f\n"
    "#define DBL_MAX 1.7976931348623157e+308\n#define DBL_EPSILON 2.2204460492503131e-16\n"
)
LIMITS = """\
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295u
#define LONG_MAX ((long)(~0ul >> 1))
#define LONG_MIN (-LONG_MAX - 1)
#define ULONG_MAX (~0ul)
#define LLONG_MAX 9223372036854775807ll
#define LLONG_MIN (-LLONG_MAX - 1)
#define ULLONG_MAX 18446744073709551615ull
namespace std { template <class T> struct numeric_limits { static constexpr bool is_specialized = false; }; }
""" + "".join(
    f"template <> struct std::numeric_limits<{of}> {{\n"
    "static constexpr bool is_specialized = true;\n"
    f"static constexpr bool is_integer = {str(epsilon == '0').lower()};\n"
    f"static constexpr bool is_signed = {str(lowest != '0').lower()};\n"
    f"static __host__ __device__ constexpr {of} max() {{ return {most}; }}\n"
    f"static __host__ __device__ constexpr {of} lowest() {{ return {lowest}; }}\n"
    f"static __host__ __device__ constexpr {of} min() {{ return {least}; }}\n"
    f"static __host__ __device__ constexpr {of} epsilon() {{ return {epsilon}; }}\n"
    f"static __device__ {of} infinity() {{ return {infinity}; }}\n"
    f"static __device__ {of} quiet_NaN() {{ return {nan}; }}\n}};\n"
    for of, most, lowest, least, epsilon, infinity, nan in (
        *(
            (kind, f"{name}_MAX", *[f"{name}_MIN" if signed else "0"] * 2, "0", "0", "0")
            for kind, name, signed in (
                ("char", "CHAR", True),
                ("signed char", "SCHAR", True),
                ("unsigned char", "UCHAR", False),
                ("short", "SHRT", True),
                ("unsigned short", "USHRT", False),
                ("int", "INT", True),
                ("unsigned", "UINT", False),
                ("long", "LONG", True),
                ("unsigned long", "ULONG", False),
                ("long long", "LLONG", True),
                ("unsigned long long", "ULLONG", False),
            )
        ),
        (
            *("float", "0x1.fffffep127f", "-0x1.fffffep127f", "0x1p-126f", "0x1p-23f"),
            *("__int_as_float(0x7f800000)", "__int_as_float(0x7fffffff)"),
        ),
        (
            *("double", "0x1.fffffffffffffp1023", "-0x1.fffffffffffffp1023", "0x1p-1022", "0x1p-52"),
            *("__longlong_as_double(0x7ff0000000000000ll)", "__longlong_as_double(0x7fffffffffffffffll)"),
        ),
    )
)
TRAITS = """\
namespace std {
template <class T, T V> struct integral_constant {
    static constexpr T value = V;
    typedef T value_type;
    typedef integral_constant type;
    __host__ __device__ constexpr operator T() const { return V; }
};
template <bool B> using bool_constant = integral_constant<bool, B>;
typedef bool_constant<true> true_type;
typedef bool_constant<false> false_type;
template <class A, class B> struct is_same : false_type {};
template <class A> struct is_same<A, A> : true_type {};
template <bool C, class A, class B> struct conditional { typedef A type; };
template <class A, class B> struct conditional<false, A, B> { typedef B type; };
template <bool C, class A, class B> using conditional_t = typename conditional<C, A, B>::type;
template <bool C, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <bool C, class T = void> using enable_if_t = typename enable_if<C, T>::type;
template <class...> using void_t = void;
template <class T> struct remove_const { typedef T type; };
template <class T> struct remove_const<const T> { typedef T type; };
template <class T> struct remove_volatile { typedef T type; };
template <class T> struct remove_volatile<volatile T> { typedef T type; };
template <class T> struct remove_cv : remove_const<typename remove_volatile<T>::type> {};
template <class T> struct remove_reference { typedef T type; };
template <class T> struct remove_reference<T&> { typedef T type; };
template <class T> struct remove_reference<T&&> { typedef T type; };
template <class T> struct remove_pointer { typedef T type; };
template <class T> struct remove_pointer<T*> { typedef T type; };
template <class T> struct remove_pointer<T* const> { typedef T type; };
template <class T> struct remove_extent { typedef T type; };
template <class T> struct remove_extent<T[]> { typedef T type; };
template <class T, decltype(sizeof(0)) N> struct remove_extent<T[N]> { typedef T type; };
template <class T> struct add_const { typedef const T type; };
template <class T> struct add_pointer { typedef typename remove_reference<T>::type* type; };
template <class T> struct is_const : false_type {};
template <class T> struct is_const<const T> : true_type {};
template <class T> struct is_reference : false_type {};
template <class T> struct is_reference<T&> : true_type {};
template <class T> struct is_reference<T&&> : true_type {};
template <class T> struct is_array : false_type {};
template <class T> struct is_array<T[]> : true_type {};
template <class T, decltype(sizeof(0)) N> struct is_array<T[N]> : true_type {};
template <class T> struct is_bare_pointer : false_type {};
template <class T> struct is_bare_pointer<T*> : true_type {};
template <class T> struct is_pointer : is_bare_pointer<typename remove_cv<T>::type> {};
template <class T> struct is_void : is_same<void, typename remove_cv<T>::type> {};
template <class T> struct is_bare_floating : false_type {};
template <> struct is_bare_floating<float> : true_type {};
template <> struct is_bare_floating<double> : true_type {};
template <class T> struct is_floating_point : is_bare_floating<typename remove_cv<T>::type> {};
template <class T> struct is_bare_integral : false_type {};
@INTEGRAL@
template <class T> struct is_integral : is_bare_integral<typename remove_cv<T>::type> {};
template <class T> struct is_arithmetic : bool_constant<is_integral<T>::value || is_floating_point<T>::value> {};
template <class T> struct is_scalar : bool_constant<is_arithmetic<T>::value || is_pointer<T>::value || __is_enum(T)> {};
template <class T, bool = is_arithmetic<T>::value> struct is_signed : bool_constant<(T(-1) < T(0))> {};
template <class T> struct is_signed<T, false> : false_type {};
template <class T, bool = is_arithmetic<T>::value> struct is_unsigned : bool_constant<(T(0) < T(-1))> {};
template <class T> struct is_unsigned<T, false> : false_type {};
template <class T> struct is_enum : bool_constant<__is_enum(T)> {};
template <class T> struct is_class : bool_constant<__is_class(T)> {};
template <class T> struct is_empty : bool_constant<__is_empty(T)> {};
template <class T> struct is_trivially_copyable : bool_constant<__is_trivially_copyable(T)> {};
template <class A, class B> struct is_base_of : bool_constant<__is_base_of(A, B)> {};
template <class A, class B> struct is_convertible : bool_constant<__is_convertible_to(A, B)> {};
template <class T> struct make_unsigned { typedef T type; };
template <class T> struct make_signed { typedef T type; };
@SIGNS@
template <class T> struct underlying_type { typedef __underlying_type(T) type; };
template <class T> struct decay_plain { typedef typename remove_cv<T>::type type; };
template <class T> struct decay_plain<T[]> { typedef T* type; };
template <class T, decltype(sizeof(0)) N> struct decay_plain<T[N]> { typedef T* type; };
template <class R, class... A> struct decay_plain<R(A...)> { typedef R (*type)(A...); };
template <class T> struct decay : decay_plain<typename remove_reference<T>::type> {};
template <class T> __host__ __device__ typename remove_reference<T>::type&& declval() noexcept;
"""
WHOLE = ("char", "short", "int", "long", "long long")
OF_A_TYPE = """remove_const remove_volatile remove_cv remove_reference remove_pointer remove_extent add_const
add_pointer make_unsigned make_signed underlying_type decay"""
OF_TYPES = """is_const is_reference is_array is_pointer is_void is_floating_point is_integral is_arithmetic is_scalar
is_signed is_unsigned is_enum is_class is_empty is_trivially_copyable"""
TRAITS = (
    TRAITS.replace(
        "@INTEGRAL@",
        "".join(
            f"template <> struct is_bare_integral<{kind}> : true_type {{}};\n"
            for kind in ("bool", "signed char", *WHOLE, *(f"unsigned {kind}" for kind in WHOLE))
        ),
    ).replace(
        "@SIGNS@",
        "template <> struct make_unsigned<char> { typedef unsigned char type; };\n"
        "template <> struct make_signed<char> { typedef signed char type; };\n"
        + "".join(
            f"template <> struct make_unsigned<signed {kind}> {{ typedef unsigned {kind} type; }};\n"
            f"template <> struct make_signed<unsigned {kind}> {{ typedef signed {kind} type; }};\n"
            for kind in WHOLE
        ),
    )
    + "".join(f"template <class T> using {of}_t = typename {of}<T>::type;\n" for of in OF_A_TYPE.split())
    + "".join(f"template <class T> inline constexpr bool {of}_v = {of}<T>::value;\n" for of in OF_TYPES.split())
    + "".join(
        f"template <class A, class B> inline constexpr bool {of}_v = {of}<A, B>::value;\n"
        for of in ("is_same", "is_base_of", "is_convertible")
    )
    + "}\n"
)
ALGORITHMS = """\
namespace std {
template <class T> __host__ __device__ constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> __host__ __device__ constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T> __host__ __device__ constexpr const T& clamp(const T& a, const T& low, const T& high) {
    return a < low ? low : high < a ? high : a;
}
template <class T> __host__ __device__ void swap(T& a, T& b) { T c = a; a = b; b = c; }
}
"""
OF_ONE = """acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 fabs floor lgamma log log10
log1p log2 logb nearbyint rint round sin sinh sqrt tan tanh tgamma trunc"""
OF_TWO = "atan2 copysign fdim fmax fmin fmod hypot nextafter pow remainder"
OF_OTHERS = """abs fma frexp ilogb isfinite isinf isnan ldexp llrint llround lrint lround modf remquo scalbln scalbn
signbit"""
MIXED = "std::enable_if_t<(std::is_arithmetic<A>::value && std::is_arithmetic<B>::value && !std::is_same<A, B>::value)"
MATHS = (
    """\
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif
#define HUGE_VALF INFINITY
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000ll)
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
"""
    + "".join(
        f"template <class T> __device__ inline std::enable_if_t<std::is_integral<T>::value, double> {of}(T a) "
        f"{{ return {of}(double(a)); }}\n"
        for of in OF_ONE.split()
    )
    + "".join(
        f"template <class A, class B> __device__ inline {MIXED}, double> {of}(A a, B b) "
        f"{{ return {of}(double(a), double(b)); }}\n"
        f"template <class T> __device__ inline std::enable_if_t<std::is_integral<T>::value, double> {of}(T a, T b) "
        f"{{ return {of}(double(a), double(b)); }}\n"
        for of in OF_TWO.split()
    )
    + "namespace std { "
    + "".join(f"using ::{of}; " for of in f"{OF_ONE} {OF_TWO} {OF_OTHERS}".split())
    + "".join(f"using ::{of}f; " for of in f"{OF_ONE} {OF_TWO} fma ldexp lround lrint".split())
    + "}\n"
)
ALWAYS = (
    "#pragma once\n#define RAND_MAX 2147483647\n"
    "namespace std { using ::size_t; using ::ptrdiff_t; "
    "typedef decltype(nullptr) nullptr_t; }\n"
    "typedef unsigned short ushort;\ntypedef unsigned uint;\ntypedef unsigned long ulong;\n"
    + LIMITS
    + TRAITS
    + ALGORITHMS
    + MATHS
)
"""Headers that nvcc gives every source, included or not; it gives the integers of ``stdint`` too."""
HEADERS = {
    "stdint": INTEGERS + "namespace std { " + re.sub(r"typedef [^;]*?(\w+);\n", r"using ::\1; ", INTEGERS) + "}\n",
    "float": FLOATS,
    **dict.fromkeys(
        ("iostream", "ostream", "istream", "sstream", "fstream"),  # a class of the device may print itself on the host
        "#ifndef HOST_STREAMS\n#define HOST_STREAMS\nnamespace std {\n"
        "struct ostream { template <class T> __host__ __device__ ostream& operator<<(const T&) const "
        '{ asm volatile("cout;"); return const_cast<ostream&>(*this); } };\n'  # no PTX: refused in kernels
        "struct istream { template <class T> __host__ __device__ istream& operator>>(T&) { return *this; } };\n"
        "constexpr ostream cout{}, cerr{};\nconstexpr char endl = '\\n';\n}\n#endif\n",
    ),
    "cuda": "typedef struct alignas(64) CUtensorMap_st { unsigned long long opaque[16]; } CUtensorMap;\n",
}
"""The text that stands for each header with more, without ``.h`` or the ``c`` before it."""
