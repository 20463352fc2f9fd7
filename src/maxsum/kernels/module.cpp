// The extension: one submodule for each subject. The build makes the list of subjects from the names of the files (subjects.inc).
#include "arrays.hpp"

namespace maxsum {
#define SUBJECT(name) void bind_##name(nb::module_ &);
#include "subjects.inc"
#undef SUBJECT

// Whether this processor has what the variant for newer ones was compiled for (x86-64-v3: AVX2, BMI and FMA).
static bool is_new_processor() {
#if defined(__x86_64__) && defined(__GNUC__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
#else
    return false;
#endif
}
} // namespace maxsum

NB_MODULE(MAXSUM_MODULE, m) {
    m.doc() = "Compiled kernels of maxsum.";
    m.def("is_new_processor", maxsum::is_new_processor, "Whether the variant for newer processors can run here.");
#define SUBJECT(name)                                                                                                  \
    {                                                                                                                  \
        auto own = m.def_submodule(#name);                                                                             \
        maxsum::bind_##name(own);                                                                                      \
    }
#include "subjects.inc"
#undef SUBJECT
}
