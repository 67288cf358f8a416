#pragma once

#include <array>
#include <cstdint>

#include "device/jobs.h"

/// What a checksum becomes for orbitkv_crc32 (native/kernels/crc32_source.h). Nothing here touches
/// a device.
namespace orbitkv::cuda {

/// What that kernel reads: bytes that lie together.
struct Crc32Run {
  static constexpr uint64_t kBytesMax = uint64_t{16} << 20;
  uint64_t address;
  uint32_t bytes;
  uint32_t weight;
  uint32_t result;
  uint32_t first_piece;
};
static_assert(sizeof(Crc32Run) == 24);

/// Pieces are multiples of this.
inline constexpr uint32_t kCrc32GrainBytes = 2048;
/// x to the power of 8 * kCrc32GrainBytes * i, for all grains of a run.
using Crc32Powers = std::array<uint32_t, Crc32Run::kBytesMax / kCrc32GrainBytes>;
const Crc32Powers& GrainPowers();

/// A checksum of `bytes` from an address of the device on, which is never followed here.
inline ChecksumStep WholeOf(uint64_t address, uint64_t bytes) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return {reinterpret_cast<const std::byte*>(address), bytes, bytes, bytes};
}

/// How many runs a checksum has.
uint64_t RunCount(const ChecksumStep& step);
/// Bytes that a checksum covers.
uint64_t CoveredBytes(const ChecksumStep& step);

/// The runs of one launch, as they are written down.
class Crc32Runs {
 public:
  /// `runs` in all, which cover `covered` bytes, for a device that has `warps` at once. They go to
  /// `at`.
  Crc32Runs(Crc32Run* at, uint64_t runs, uint64_t covered, uint64_t warps);
  /// A checksum, whose remainder goes to results[result].
  void Add(const ChecksumStep& step, uint32_t result);

  uint32_t count() const { return count_; }
  uint32_t pieces() const { return pieces_; }
  uint32_t piece_bytes() const { return piece_bytes_; }

 private:
  Crc32Run* const at_;
  const uint32_t piece_bytes_;
  uint32_t count_ = 0;
  uint32_t pieces_ = 0;
};

}  // namespace orbitkv::cuda
