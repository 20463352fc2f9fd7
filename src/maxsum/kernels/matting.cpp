// Products with the matting Laplacian of an image by running box sums: a cost that does not depend on the size of the windows.
//
// Windows are squares of 2 r + 1 pixels a side that lie inside the image; window (i, j) has its corner at pixel (i, j).
#include "arrays.hpp"

namespace maxsum {

static void add_colours(const double *pixel, double sign, double *sums) {
    const double r = pixel[0], g = pixel[1], b = pixel[2];
    sums[0] += sign * r;
    sums[1] += sign * g;
    sums[2] += sign * b;
    sums[3] += sign * r * r;
    sums[4] += sign * r * g;
    sums[5] += sign * r * b;
    sums[6] += sign * g * g;
    sums[7] += sign * g * b;
    sums[8] += sign * b * b;
}

// Mean colour and (Sigma + epsilon I / m)^-1 (six entries) of every window of m pixels.
//
// The inverse is made of L D L' with D >= epsilon / m, so it is positive definite whatever the rounding.
static void prepare(Array<const double, 3> image, i64 radius, double epsilon, Array<double, 3> mean, Array<double, 3> inverse) {
    const i64 height = image.shape[0], width = image.shape[1], side = 2 * radius + 1;
    const double m = double(side * side);
    std::vector<double> sums(width * 9);
    double run[9] = {};
    for (i64 top = 0; top < height - side + 1; top++) {
        for (i64 j = 0; j < width; j++) {
            double *own = &sums[9 * j];
            if (top == 0) {
                for (i64 i = 0; i < side; i++) add_colours(&image(i, j, 0), 1.0, own);
            } else {
                add_colours(&image(top + side - 1, j, 0), 1.0, own);
                add_colours(&image(top - 1, j, 0), -1.0, own);
            }
        }
        for (i64 left = 0; left < width - side + 1; left++) {
            if (left == 0) {
                std::fill(run, run + 9, 0.0);
                for (i64 j = 0; j < side; j++) {
                    for (i64 q = 0; q < 9; q++) run[q] += sums[9 * j + q];
                }
            } else {
                const double *in = &sums[9 * (left + side - 1)], *gone = &sums[9 * (left - 1)];
                for (i64 q = 0; q < 9; q++) run[q] += in[q] - gone[q];
            }
            const double r = run[0] / m, g = run[1] / m, b = run[2] / m;
            const double rr = run[3] / m - r * r + epsilon / m;
            const double below = run[4] / m - r * g;
            const double under = run[5] / m - r * b;
            const double gg = run[6] / m - g * g + epsilon / m;
            double gb = run[7] / m - g * b;
            const double bb = run[8] / m - b * b + epsilon / m;
            const double least = epsilon / m;
            const double d0 = std::max(rr, least);
            const double rg = below / d0, rb = under / d0;
            const double d1 = std::max(gg - rg * below, least);
            gb = (gb - rb * below) / d1;
            const double d2 = std::max(bb - rb * under - gb * gb * d1, least);
            const double low = rg * gb - rb;
            double *own = &mean(top, left, 0), *entry = &inverse(top, left, 0);
            own[0] = r;
            own[1] = g;
            own[2] = b;
            entry[0] = 1.0 / d0 + rg * rg / d1 + low * low / d2;
            entry[1] = -rg / d1 - low * gb / d2;
            entry[2] = low / d2;
            entry[3] = 1.0 / d1 + gb * gb / d2;
            entry[4] = -gb / d2;
            entry[5] = 1.0 / d2;
        }
    }
}

namespace {

// Value and value times colour of a pixel, or level and slopes of a window: four numbers that are summed together.
struct Four {
    double of[4] = {0.0, 0.0, 0.0, 0.0};

    void operator+=(const Four &other) {
        for (int c = 0; c < 4; c++) of[c] += other.of[c];
    }
    void operator-=(const Four &other) {
        for (int c = 0; c < 4; c++) of[c] -= other.of[c];
    }
};

Four moments(double value, const double *colour) { return {{value, value * colour[0], value * colour[1], value * colour[2]}}; }

} // namespace

// out = scale * L x for each column of x (n_pixels, K).
//
// In each window x is regressed on the colours, x_i ~ a' I_i + b; then (L x)_i = sum_{w with i} (x_i - a_w' I_i - b_w) (He, Sun and Tang 2010).
static void product(Array<const double, 3> image, Array<const double, 3> mean, Array<const double, 3> inverse, i64 radius, double scale,
                    Array<const double, 2> x, Array<double, 2> out) {
    const i64 height = image.shape[0], width = image.shape[1], rows = mean.shape[0], cols = mean.shape[1], side = 2 * radius + 1;
    const double m = double(side * side);
    const Owned<double, 2> plane(height, width);
    std::vector<Four> fit(rows * cols), sums(width);
    const auto colour = [&](i64 i, i64 j) { return image.data + (i * width + j) * 3; };
    for (i64 k = 0; k < x.shape[1]; k++) {
        bool constant = true;
        for (i64 v = 0; v < height * width; v++) {
            plane.data[v] = x(v, k);
            constant &= plane.data[v] == plane.data[0];
        }
        if (constant) {
            for (i64 v = 0; v < height * width; v++) out(v, k) = 0.0;
            continue;
        }
        std::fill(sums.begin(), sums.end(), Four());
        for (i64 i = 0; i < side - 1; i++) {
            for (i64 j = 0; j < width; j++) sums[j] += moments(plane(i, j), colour(i, j));
        }
        for (i64 top = 0; top < rows; top++) {
            const i64 below = top + side - 1;
            for (i64 j = 0; j < width; j++) sums[j] += moments(plane(below, j), colour(below, j));
            Four run;
            for (i64 j = 0; j < side - 1; j++) run += sums[j];
            for (i64 left = 0; left < cols; left++) {
                run += sums[left + side - 1];
                const double level = run.of[0] / m;
                const double *own = &mean(top, left, 0), *entry = &inverse(top, left, 0);
                const double r = own[0], g = own[1], b = own[2];
                const double cr = run.of[1] / m - r * level, cg = run.of[2] / m - g * level, cb = run.of[3] / m - b * level;
                const double ar = entry[0] * cr + entry[1] * cg + entry[2] * cb;
                const double ag = entry[1] * cr + entry[3] * cg + entry[4] * cb;
                const double ab = entry[2] * cr + entry[4] * cg + entry[5] * cb;
                fit[top * cols + left] = {{level - (ar * r + ag * g + ab * b), ar, ag, ab}};
                run -= sums[left];
            }
            for (i64 j = 0; j < width; j++) sums[j] -= moments(plane(top, j), colour(top, j));
        }
        std::fill(sums.begin(), sums.end(), Four());
        for (i64 i = 0; i < height; i++) {
            if (i < rows) {
                for (i64 j = 0; j < cols; j++) sums[j] += fit[i * cols + j];
            }
            if (i >= side) {
                for (i64 j = 0; j < cols; j++) sums[j] -= fit[(i - side) * cols + j];
            }
            const i64 deep = std::min(i, rows - 1) - std::max<i64>(0, i - side + 1) + 1;
            Four run;
            for (i64 j = 0; j < width; j++) {
                if (j < cols) run += sums[j];
                if (j >= side) run -= sums[j - side];
                const i64 wide = std::min(j, cols - 1) - std::max<i64>(0, j - side + 1) + 1;
                const double *own = colour(i, j);
                const double guess = run.of[0] + run.of[1] * own[0] + run.of[2] * own[1] + run.of[3] * own[2];
                out(i * width + j, k) = scale * (double(deep * wide) * plane(i, j) - guess);
            }
        }
    }
}

void bind_matting(nb::module_ &m) {
    def(m, "prepare", prepare, "image"_a, "radius"_a, "epsilon"_a, "mean"_a, "inverse"_a,
        "Mean colour and (Sigma + epsilon I / m)^-1 (six entries) of every window of ``m`` pixels.");
    def(m, "product", product, "image"_a, "mean"_a, "inverse"_a, "radius"_a, "scale"_a, "x"_a, "out"_a,
        "``out = scale * L x`` for each column of ``x`` (n_pixels, K).");
}

} // namespace maxsum
