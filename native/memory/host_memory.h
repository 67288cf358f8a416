#pragma once

#include <cstdint>
#include <string>

namespace orbitkv {

/// What this process may still take.
struct HostMemory {
  /// MemAvailable.
  uint64_t available_bytes;
  /// Limit less usage of the tightest control group above this process; UINT64_MAX without a limit.
  uint64_t cgroup_free_bytes;
  bool cgroup_limited;
};

/// Reads /proc and the control group (v2 or v1). A file that is missing limits nothing.
HostMemory ReadHostMemory();

/// The same over other roots, for tests: `proc` holds meminfo and self/cgroup, `cgroup` is the
/// mount of control groups.
HostMemory ReadHostMemory(const std::string& proc, const std::string& cgroup);

}  // namespace orbitkv
