// The extension: one submodule for each subject. The build makes the list of subjects from the names of the files (subjects.inc).
#include "arrays.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

namespace maxsum {
#define SUBJECT(name) void bind_##name(nb::module_ &);
#include "subjects.inc"
#undef SUBJECT

// Whether this processor, and its operating system, have what the variant for newer ones was compiled for: x86-64-v3 (AVX2, BMI, FMA and so on).
// Asked of the processor itself, since not every compiler's library has __builtin_cpu_supports.
static bool is_new_processor() {
#if defined(__x86_64__) && defined(__GNUC__)
    unsigned a, b, c, d;
    constexpr unsigned FMA = 1u << 12, MOVBE = 1u << 22, OSXSAVE = 1u << 27, AVX = 1u << 28, F16C = 1u << 29;
    constexpr unsigned BMI = 1u << 3, AVX2 = 1u << 5, BMI2 = 1u << 8, LZCNT = 1u << 5;
    constexpr unsigned first = FMA | MOVBE | OSXSAVE | AVX | F16C, seventh = BMI | AVX2 | BMI2;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & first) != first) return false;
    unsigned low, high; // registers that the operating system saves: bits 1 and 2 are those of SSE and AVX
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & 6) != 6) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & seventh) != seventh) return false;
    return __get_cpuid(0x80000001, &a, &b, &c, &d) && (c & LZCNT);
#else
    return false;
#endif
}
} // namespace maxsum

NB_MODULE(MAXSUM_MODULE, m) {
    m.doc() = "Compiled kernels of maxsum.";
    m.def("is_new_processor", maxsum::is_new_processor, "Whether the variant for newer processors can run here.");
#define SUBJECT(name)                                                                                                                                \
    {                                                                                                                                                \
        auto own = m.def_submodule(#name);                                                                                                           \
        maxsum::bind_##name(own);                                                                                                                    \
    }
#include "subjects.inc"
#undef SUBJECT
}
