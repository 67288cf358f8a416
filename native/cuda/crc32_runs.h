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

/// A piece is this long at least, unless there is no more.
inline constexpr uint32_t kCrc32PieceBytesMin = 16 << 10;
/// x to the power of 8 * kCrc32PieceBytesMin * i, for all pieces of a run.
using Crc32Powers = std::array<uint32_t, Crc32Run::kBytesMax / kCrc32PieceBytesMin>;
const Crc32Powers& PiecePowers();

/// How many runs a checksum has.
uint64_t RunCount(const ChecksumStep& step);
/// Bytes that a checksum covers.
uint64_t CoveredBytes(const ChecksumStep& step);

/// The runs of one launch, as they are written down.
class Crc32Runs {
 public:
  /// `covered`: bytes of the whole launch. Runs go to `at`, where there is room for all of them.
  Crc32Runs(Crc32Run* at, uint64_t covered);
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
