#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/fixed_ring.h"
#include "cuda/cuda_device.h"
#include "cuda/fences.h"
#include "cuda/run_sums.h"
#include "cuda/tile_arena.h"
#include "device/jobs.h"

namespace orbitkv::cuda {

/// Checksums of device memory, by orbitkv_crc32. A region of the arena holds one word of remainder
/// for each checksum, then runs; all of it is brought to the device at once, zeroes for the words,
/// and the words come back.
class DeviceSums {
 public:
  /// Runs of one checksum: more do not fit in a region.
  static constexpr size_t kRunsMax = 32 << 10;

  /// The device is entered; `arena` and `sums` outlive this. Throws SystemError.
  DeviceSums(CudaDevice& device, RunSums& sums, TileArena& arena);
  DeviceSums(const DeviceSums&) = delete;
  DeviceSums& operator=(const DeviceSums&) = delete;

  /// Room for the first of `steps` at least; empty when there is none now.
  std::span<std::byte> Reserve(std::span<const ChecksumStep> steps);
  /// Queues as many of `steps` as fit in `room`, and sets `count` to that; checksum i goes to
  /// results[first_result + i] when Expect()'s fence has passed. `steps` stay where they are until
  /// then.
  Result Launch(StreamPointer stream, std::span<std::byte> room,
                std::span<const ChecksumStep> steps, size_t first_result, size_t* count);
  /// What was launched last stands before this fence.
  void Expect(uint32_t fence);
  /// Reads what stands before fences that have passed; an empty `results` reads nothing.
  void Collect(const Fences& fences, std::span<uint32_t> results);
  void Forget() { pending_.clear(); }

 private:
  /// Checksums behind one fence, until they are read.
  struct Launched {
    uint32_t fence = 0;
    const uint32_t* remainders = nullptr;
    std::span<const ChecksumStep> steps;
    size_t first_result = 0;
  };

  CudaDevice& device_;
  RunSums& sums_;
  TileArena& arena_;
  /// As a region.
  DeviceAddress words_ = 0;
  std::shared_ptr<const void> memory_;
  Launched launched_;
  FixedRing<Launched, Fences::kPendingMax> pending_;
};

}  // namespace orbitkv::cuda
