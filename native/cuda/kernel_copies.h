#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cuda/choice.h"
#include "cuda/cuda_device.h"
#include "cuda/descriptor_feed.h"
#include "cuda/runs.h"
#include "cuda/tile_arena.h"

namespace orbitkv::cuda {

/// Runs by a kernel: cut into tiles, which lie in the arena until the fence behind them has passed.
class KernelCopies {
 public:
  /// How the runs of one job become tiles and launches.
  struct Plan {
    Cutting cutting;
    Shift shift;
    Slicing slicing;
    uint32_t blocks = 0;
    bool inside = false;
  };

  /// The device is entered. Throws SystemError. `pool_shift` is added to an address of the stream's
  /// pool to get the device's; 0 nearly everywhere.
  KernelCopies(CudaDevice& device, const Kernels& kernels, TileArena& arena,
               const StreamOptions& options, uint64_t pool_shift);
  KernelCopies(const KernelCopies&) = delete;
  KernelCopies& operator=(const KernelCopies&) = delete;

  Plan PlanFor(const Shape& shape) const;
  /// Room for a launch that is worth it; empty when there is none now.
  std::span<std::byte> Reserve(const RunCursor& runs);
  /// Queues one launch over as many tiles as fit in `room`.
  Result Launch(StreamPointer stream, std::span<std::byte> room, RunCursor& runs, const Plan& plan);

 private:
  const CudaDevice& device_;
  const Kernels& kernels_;
  TileArena& arena_;
  const StreamOptions options_;
  const uint64_t pool_shift_;
  std::unique_ptr<DescriptorFeed> feed_;  // null: kernels read descriptors where they are
};

}  // namespace orbitkv::cuda
