#pragma once

#include <time.h>

#include <cstdint>

namespace orbitkv {

/// CLOCK_MONOTONIC in nanoseconds: the clock of completion slots, shared by every process of the
/// host.
inline int64_t MonotonicNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

/// CLOCK_MONOTONIC in whole microseconds.
inline int64_t MonotonicUs() { return MonotonicNs() / 1000; }

}  // namespace orbitkv
