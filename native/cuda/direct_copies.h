#pragma once

#include <array>
#include <span>

#include "cuda/driver.h"
#include "cuda/runs.h"

namespace orbitkv::cuda {

/// Runs by the copy engine of the device, batched where the driver can.
class DirectCopies {
 public:
  /// Runs of one call of the driver: one was seen to fail with 50,000.
  static constexpr size_t kRunsMax = 1024;
  /// Runs of one launch when each is a call of its own.
  static constexpr size_t kCallsMax = 64;

  explicit DirectCopies(const Driver& driver)
      : driver_(driver), batches_(driver.cuMemcpyBatchAsync != nullptr) {}
  DirectCopies(const DirectCopies&) = delete;
  DirectCopies& operator=(const DirectCopies&) = delete;

  /// How many runs one launch takes.
  size_t runs_max() const { return batches_ ? kRunsMax : kCallsMax; }
  /// Queues at most runs_max() runs. What was queued before a failure stays queued.
  Result Launch(StreamPointer stream, Way way, std::span<const Tile> runs);

 private:
  Result Batch(StreamPointer stream, std::span<const Tile> runs);
  Result One(StreamPointer stream, Way way, const Tile& run);

  const Driver& driver_;
  bool batches_;  // until the driver says that it has none
  /// Arguments of one batch; here because they are too much for a stack and nothing may fail.
  std::array<DeviceAddress, kRunsMax> targets_;
  std::array<DeviceAddress, kRunsMax> sources_;
  std::array<size_t, kRunsMax> sizes_;
  std::array<size_t, kRunsMax> attribute_first_{};
};

}  // namespace orbitkv::cuda
