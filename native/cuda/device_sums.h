#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/fixed_ring.h"
#include "cuda/cuda_device.h"
#include "cuda/fences.h"
#include "cuda/piece_sums.h"
#include "cuda/tile_arena.h"
#include "device/jobs.h"

namespace orbitkv::cuda {

/// Checksums of device memory, by orbitkv_crc32. A region of the arena holds pieces, then one word
/// of remainder for each checksum, which the device writes back.
class DeviceSums {
 public:
  /// Pieces of one checksum: more do not fit in a region.
  static constexpr size_t kPiecesMax = PieceSums::kPiecesMax;

  /// The device is entered; `arena` and `pieces` outlive this. Throws SystemError.
  DeviceSums(CudaDevice& device, const PieceSums& pieces, TileArena& arena);
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
  struct Piece {
    uint32_t fence = 0;
    const uint32_t* remainders = nullptr;
    std::span<const ChecksumStep> steps;
    size_t first_result = 0;
  };

  CudaDevice& device_;
  const PieceSums& pieces_;
  TileArena& arena_;
  DeviceAddress sums_ = 0;
  std::shared_ptr<const void> memory_;
  Piece launched_;
  FixedRing<Piece, Fences::kPendingMax> pending_;
};

}  // namespace orbitkv::cuda
