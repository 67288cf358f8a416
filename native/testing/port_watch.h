#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "port/completion.h"

namespace orbitkv::testing {

/// What one port was given to do, so that a completion can be told from another: by number alone
/// it does not say whether it was a read or a write.
struct PortWatch {
  std::span<const double> submissions;
  std::span<Completion> completions;
  /// Tag of a read or write in flight -> whether it writes.
  std::unordered_map<int32_t, bool> writes;

  /// Before pump(count): passes the points of what it submits.
  void Submitting(int32_t count);
  /// After pump or park returned `count` completions: passes their points.
  void Completed(int32_t count);
};

}  // namespace orbitkv::testing
