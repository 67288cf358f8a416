#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cuda/cuda_device.h"
#include "cuda/kernels.h"

namespace orbitkv::cuda {

/// The launches of orbitkv_crc32 on one stream. Pieces are brought to the device before a launch: a
/// warp that fetches its own over the bus waits longer for the 24 bytes than it works on 16 KiB.
/// There is one place for them, and the stream keeps launches from meeting in it.
class PieceSums {
 public:
  /// Pieces of one launch.
  static constexpr size_t kPiecesMax = 32 << 10;

  /// The device is entered. Throws SystemError.
  PieceSums(CudaDevice& device, const Kernels& kernels);

  /// Brings `count` pieces, at most kPiecesMax, to the device. They lie in pinned memory, and stay
  /// as they are until the stream has passed this. Before other kernels is the place for it:
  /// between two kernels they would wait for each other.
  Result Feed(StreamPointer stream, const Crc32Piece* pieces, uint32_t count) const;
  /// Adds the remainders of the pieces that were fed last to `sums`.
  Result Launch(StreamPointer stream, uint32_t count, DeviceAddress sums) const;

 private:
  const CudaDevice& device_;
  const Kernels& kernels_;
  DeviceAddress pieces_ = 0;
  std::shared_ptr<const void> memory_;
};

}  // namespace orbitkv::cuda
