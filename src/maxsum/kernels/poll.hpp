// Ctrl-C inside a long kernel.
//
// A kernel that may run for longer than a moment calls its Poll between two steps that leave everything whole. Every 50 ms or so it asks Python
// whether a signal has come, and ends the kernel by the exception of the handler, KeyboardInterrupt as a rule. In threads other than the main one
// Python delivers no signals, so kernels run to their end there.
#pragma once

#include "arrays.hpp"

#include <chrono>

namespace maxsum {

class Poll {
    static constexpr std::chrono::milliseconds PAUSE{50};
    std::chrono::steady_clock::time_point next = std::chrono::steady_clock::now() + PAUSE;
    u64 work = 0;
    u64 limit;

    void ask() {
        const auto now = std::chrono::steady_clock::now();
        if (now < next) return;
        next = now + PAUSE;
        nb::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }

  public:
    // `limit`: units of work, of a few nanoseconds to a microsecond each, between two looks at the clock.
    explicit Poll(u64 limit = 1000) : limit(limit) {}

    void operator()(u64 units = 1) {
        work += units;
        if (work >= limit) {
            work = 0;
            ask();
        }
    }
};

} // namespace maxsum
