#pragma once

#include <cstdint>
#include <string>

namespace orbitkv::uring {

/// Why io_uring cannot be used here, or what it offers: Probe in src/binding/probe.ts.
struct ProbeReport {
  bool available;
  /// errno of the attempt, 0 when available.
  int error;
  const char* reason;
  std::string kernel;
  uint32_t setup_flags;
  /// RLIMIT_MEMLOCK; UINT64_MAX for no limit.
  uint64_t memlock_bytes;
};

ProbeReport Probe();

/// The reason of a refused setup, from its errno, the running kernel and kernel.io_uring_disabled
/// ("" when absent).
const char* ReasonOf(int error, const std::string& kernel, const std::string& disabled);

}  // namespace orbitkv::uring
