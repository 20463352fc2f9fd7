#include "distance.hpp"

namespace maxsum {

static void bound_linear(Array<const double> own, i64 n_labels, double step, double same, double apart, Array<double> out, Array<double> back) {
    linear(own.data, n_labels, step, same, apart, out.data, back.data);
}

static void bound_quadratic(Array<const double> own, i64 n_labels, double step, double same, double apart, Array<double> out, Array<double> lifted,
                            Array<i64> hull) {
    quadratic(own.data, n_labels, step, same, apart, out.data, lifted.data, hull.data);
}

void bind_distance(nb::module_ &m) {
    m.attr("GENERAL") = GENERAL;
    m.attr("ASSOCIATIVE") = ASSOCIATIVE;
    m.attr("BAND") = BAND;
    m.attr("LINEAR") = LINEAR;
    m.attr("QUADRATIC") = QUADRATIC;
    def(m, "linear", bound_linear, "own"_a, "n_labels"_a, "step"_a, "same"_a, "apart"_a, "out"_a, "back"_a,
        "``out[l] = max(apart, max_k own[k] + same - step * abs(k - l))``.");
    def(m, "quadratic", bound_quadratic, "own"_a, "n_labels"_a, "step"_a, "same"_a, "apart"_a, "out"_a, "lifted"_a, "hull"_a,
        "``out[l] = max(apart, max_k own[k] + same - step * (k - l) ** 2)``.");
}

} // namespace maxsum
