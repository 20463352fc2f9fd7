// Arrays of numpy as kernels see them: a pointer and a shape, C-contiguous, checked once at the border.
//
// A kernel takes `Array<const double, 2>` for what it reads, `Array<double, 2>` for what it writes, `Flag` for a truth value, numbers as `i64` and
// `double`, and records of arrays (`MAXSUM_RECORD`). What it allocates and returns is an `Owned`. Nothing is converted on the way in: an array of
// another dtype, dimension or memory order is a TypeError, since a kernel that wrote into a copy would write into nothing.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#ifdef MAXSUM_BOUNDS // a build that checks every index: python -m benchmarks sanitize
#include <cstdio>
#include <cstdlib>
#define MAXSUM_INSIDE(i, n)                                                                                                                          \
    do {                                                                                                                                             \
        if ((i) < 0 || (i) >= (n)) {                                                                                                                 \
            std::fprintf(stderr, "%s:%d: index %lld of %lld\n", __FILE__, __LINE__, (long long)(i), (long long)(n));                                 \
            std::abort();                                                                                                                            \
        }                                                                                                                                            \
    } while (0)
#else
#define MAXSUM_INSIDE(i, n) ((void)0)
#endif

namespace maxsum {

namespace nb = nanobind;
using namespace nb::literals;

using i8 = std::int8_t;
using u8 = std::uint8_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using u64 = std::uint64_t;

constexpr double INF = std::numeric_limits<double>::infinity();

// Views of contiguous memory. Copy one into a local before a hot loop that writes whole numbers: the compiler cannot know that these do not
// overlap the shape of an array behind a reference.
template <class T, int N = 1> struct Array {
    T *data = nullptr;
    std::array<i64, N> shape{};

    Array() = default;
    Array(T *data, std::array<i64, N> shape) : data(data), shape(shape) {}
    operator Array<const T, N>() const
        requires(!std::is_const_v<T>)
    {
        return {data, shape};
    }

    i64 size() const { return shape[0]; } // as len() of Python
    i64 count() const {
        i64 all = 1;
        for (i64 n : shape) all *= n;
        return all;
    }

    decltype(auto) operator[](i64 i) const {
        MAXSUM_INSIDE(i, shape[0]);
        if constexpr (N == 1) {
            return (data[i]);
        } else if constexpr (N == 2) {
            return Array<T, 1>(data + i * shape[1], {shape[1]});
        } else {
            return Array<T, 2>(data + i * shape[1] * shape[2], {shape[1], shape[2]});
        }
    }
    T &operator()(i64 i, i64 j) const
        requires(N == 2)
    {
        MAXSUM_INSIDE(i, shape[0]);
        MAXSUM_INSIDE(j, shape[1]);
        return data[i * shape[1] + j];
    }
    T &operator()(i64 i, i64 j, i64 k) const
        requires(N == 3)
    {
        MAXSUM_INSIDE(i, shape[0]);
        MAXSUM_INSIDE(j, shape[1]);
        MAXSUM_INSIDE(k, shape[2]);
        return data[(i * shape[1] + j) * shape[2] + k];
    }
    // The entries first .. last - 1.
    Array part(i64 first, i64 last) const
        requires(N == 1)
    {
        return {data + first, {last - first}};
    }
    void fill(std::remove_const_t<T> value) const { std::fill(data, data + count(), value); }
    template <class S> void copy_from(const Array<S, N> &other) const { std::copy(other.data, other.data + other.count(), data); }
    T *begin() const { return data; }
    T *end() const { return data + count(); }
};

// Memory of a kernel: scratch, or what it gives to Python, which takes it over without a copy.
template <class T, int N = 1> struct Owned : Array<T, N> {
    std::unique_ptr<T[]> memory;

    Owned() : Owned(std::array<i64, N>{}) {}
    explicit Owned(std::array<i64, N> shape) : Array<T, N>(nullptr, shape) {
        memory = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(std::max<i64>(this->count(), 1)));
        this->data = memory.get();
    }
    explicit Owned(i64 n)
        requires(N == 1)
        : Owned(std::array<i64, 1>{n}) {}
    Owned(i64 rows, i64 columns)
        requires(N == 2)
        : Owned(std::array<i64, 2>{rows, columns}) {}
    Owned(i64 blocks, i64 rows, i64 columns)
        requires(N == 3)
        : Owned(std::array<i64, 3>{blocks, rows, columns}) {}

    static Owned filled(std::array<i64, N> shape, T value) {
        Owned made(shape);
        made.fill(value);
        return made;
    }
    static Owned zeros(i64 n)
        requires(N == 1)
    {
        return filled({n}, T(0));
    }
    // The first n entries only; the memory stays.
    Owned &&cut(i64 n) &&
        requires(N == 1)
    {
        this->shape[0] = n;
        return std::move(*this);
    }
};

// A truth value, also one of numpy.
struct Flag {
    bool value = false;
    operator bool() const { return value; }
};

// Largest of n numbers; four maxima at a time, which do not wait for each other.
inline double largest(const double *values, i64 n) {
    double a = -INF, b = -INF, c = -INF, d = -INF;
    i64 k = 0;
    for (; k + 3 < n; k += 4) {
        a = a < values[k] ? values[k] : a;
        b = b < values[k + 1] ? values[k + 1] : b;
        c = c < values[k + 2] ? values[k + 2] : c;
        d = d < values[k + 3] ? values[k + 3] : d;
    }
    for (; k < n; k++) a = a < values[k] ? values[k] : a;
    a = a < b ? b : a;
    c = c < d ? d : c;
    return a < c ? c : a;
}

// Division of whole numbers that rounds down, as Python's.
inline i64 floor_div(i64 a, i64 b) {
    i64 q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

// Names of the fields of a record, for a test that Python's record has the same ones in the same order.
template <class R> void bind_record(nb::module_ &m) {
    nb::list names;
    std::string all = R::field_names;
    for (std::size_t at = 0; at < all.size();) {
        std::size_t end = std::min(all.find(", ", at), all.size());
        names.append(nb::str(all.substr(at, end - at).c_str()));
        at = end + 2;
    }
    m.attr((std::string("fields_of_") + R::record_name).c_str()) = nb::tuple(names);
}

// Every kernel runs without the GIL.
template <class F, class... Extra> void def(nb::module_ &m, const char *name, F &&function, const Extra &...extra) {
    m.def(name, std::forward<F>(function), nb::call_guard<nb::gil_scoped_release>(), extra...);
}

} // namespace maxsum

namespace nanobind::detail {

template <class T, int N> struct type_caster<maxsum::Array<T, N>> {
    using Own = maxsum::Array<T, N>;
    NB_TYPE_CASTER(Own, const_name("numpy.ndarray"))

    bool from_python(handle src, uint32_t flags, cleanup_list *cleanup) noexcept {
        using Checked = ndarray<T, ndim<N>, c_contig, device::cpu>;
        make_caster<Checked> found;
        if (!found.from_python(src, flags & ~uint32_t(cast_flags::convert), cleanup)) return false;
        value.data = found.value.data();
        for (int d = 0; d < N; d++) value.shape[d] = maxsum::i64(found.value.shape(d));
        return true;
    }
    static handle from_cpp(const maxsum::Array<T, N> &, rv_policy, cleanup_list *) noexcept = delete;
};

template <class T, int N> struct type_caster<maxsum::Owned<T, N>> {
    using Own = maxsum::Owned<T, N>;
    NB_TYPE_CASTER(Own, const_name("numpy.ndarray"))

    bool from_python(handle, uint32_t, cleanup_list *) noexcept { return false; }
    static handle from_cpp(maxsum::Owned<T, N> &&made, rv_policy, cleanup_list *cleanup) noexcept {
        std::size_t shape[N];
        for (int d = 0; d < N; d++) shape[d] = std::size_t(made.shape[d]);
        T *memory = made.memory.release();
        capsule owner(memory, [](void *p) noexcept { delete[] static_cast<T *>(p); });
        using Given = ndarray<numpy, T, ndim<N>>;
        return make_caster<Given>::from_cpp(Given(memory, N, shape, owner), rv_policy::reference, cleanup);
    }
};

template <> struct type_caster<maxsum::Flag> {
    NB_TYPE_CASTER(maxsum::Flag, const_name("bool"))

    bool from_python(handle src, uint32_t, cleanup_list *) noexcept {
        int found = PyObject_IsTrue(src.ptr());
        if (found < 0) {
            PyErr_Clear();
            return false;
        }
        value.value = found != 0;
        return true;
    }
    static handle from_cpp(maxsum::Flag flag, rv_policy, cleanup_list *) noexcept { return handle(flag.value ? Py_True : Py_False).inc_ref(); }
};

// A NamedTuple of Python, field by field in the same order.

template <class R, class First, class... Rest>
bool load_fields(R &record, PyObject *tuple, uint32_t flags, cleanup_list *cleanup, Py_ssize_t at, First R::*first, Rest... rest) {
    make_caster<First> caster;
    if (!caster.from_python(PyTuple_GET_ITEM(tuple, at), flags, cleanup)) return false;
    record.*first = caster.operator cast_t<First>();
    if constexpr (sizeof...(Rest) > 0) {
        return load_fields(record, tuple, flags, cleanup, at + 1, rest...);
    } else {
        return true;
    }
}

template <class R> struct record_caster {
    NB_TYPE_CASTER(R, R::type_name)

    bool from_python(handle src, uint32_t flags, cleanup_list *cleanup) noexcept {
        return std::apply(
            [&](auto... fields) {
                return PyTuple_Check(src.ptr()) && PyTuple_GET_SIZE(src.ptr()) == Py_ssize_t(sizeof...(fields)) &&
                       load_fields(value, src.ptr(), flags, cleanup, 0, fields...);
            },
            R::fields());
    }
    static handle from_cpp(const R &, rv_policy, cleanup_list *) noexcept = delete;
};

} // namespace nanobind::detail

// Inside a struct: names its fields, in the order of Python's NamedTuple. After the namespace: MAXSUM_RECORD_CASTER(Name).
#define MAXSUM_PARENS ()
#define MAXSUM_EXPAND(...) MAXSUM_EXPAND2(MAXSUM_EXPAND2(MAXSUM_EXPAND2(__VA_ARGS__)))
#define MAXSUM_EXPAND2(...) MAXSUM_EXPAND1(MAXSUM_EXPAND1(MAXSUM_EXPAND1(__VA_ARGS__)))
#define MAXSUM_EXPAND1(...) MAXSUM_EXPAND0(MAXSUM_EXPAND0(MAXSUM_EXPAND0(__VA_ARGS__)))
#define MAXSUM_EXPAND0(...) __VA_ARGS__
#define MAXSUM_MEMBERS(R, ...) __VA_OPT__(MAXSUM_EXPAND(MAXSUM_MEMBER(R, __VA_ARGS__)))
#define MAXSUM_MEMBER(R, first, ...) &R::first __VA_OPT__(, MAXSUM_MEMBER_AGAIN MAXSUM_PARENS(R, __VA_ARGS__))
#define MAXSUM_MEMBER_AGAIN() MAXSUM_MEMBER
#define MAXSUM_RECORD(R, ...)                                                                                                                        \
    static constexpr const char *record_name = #R;                                                                                                   \
    static constexpr auto type_name = nanobind::detail::const_name("maxsum.kernels.records." #R);                                                    \
    static constexpr const char *field_names = #__VA_ARGS__;                                                                                         \
    static constexpr auto fields() { return std::make_tuple(MAXSUM_MEMBERS(R, __VA_ARGS__)); }
#define MAXSUM_RECORD_CASTER(R)                                                                                                                      \
    namespace nanobind::detail {                                                                                                                     \
    template <> struct type_caster<maxsum::R> : record_caster<maxsum::R> {};                                                                         \
    }
