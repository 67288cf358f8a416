#include "cuda/checksum_pieces.h"

#include <algorithm>
#include <array>

#include "codec/crc32_combine.h"

namespace orbitkv::cuda {
namespace {

/// Covered at once: segments without padding between them are one range.
uint64_t RangeBytes(const ChecksumStep& step) {
  return step.segment_bytes == step.segment_stride_bytes ? step.bytes : step.segment_bytes;
}

uint64_t RangeCount(const ChecksumStep& step) {
  return step.segment_bytes == step.segment_stride_bytes ? 1
                                                         : step.bytes / step.segment_stride_bytes;
}

/// x to the power of 8 * kBytesMax * count. A product takes longer than a kernel needs for a piece,
/// so those of the largest granule and item are made once.
uint32_t FullPieces(uint64_t count) {
  static const auto powers = [] {
    std::array<uint32_t, 1024> made;
    const uint32_t full = Crc32Shift(Crc32Piece::kBytesMax);
    made[0] = Crc32Shift(0);
    for (size_t i = 1; i < made.size(); ++i) made[i] = Crc32Times(made[i - 1], full);
    return made;
  }();
  return count < powers.size() ? powers[count] : Crc32Shift(count * Crc32Piece::kBytesMax);
}

uint64_t PiecesOf(uint64_t bytes) {
  return (bytes + Crc32Piece::kBytesMax - 1) / Crc32Piece::kBytesMax;
}

}  // namespace

uint64_t PieceCount(const ChecksumStep& step) {
  return RangeCount(step) * PiecesOf(RangeBytes(step));
}

uint64_t CoveredBytes(const ChecksumStep& step) {
  return step.bytes / step.segment_stride_bytes * step.segment_bytes;
}

void WritePieces(const ChecksumStep& step, uint32_t result, Crc32Piece* pieces) {
  const auto first = reinterpret_cast<uint64_t>(step.granule);
  const uint64_t bytes = RangeBytes(step);
  Crc32Piece* piece = pieces + PieceCount(step);
  uint32_t behind = Crc32Shift(0);  // what follows this range
  for (uint64_t range = RangeCount(step); range-- > 0;) {
    const uint64_t start = first + range * step.segment_stride_bytes;
    // From its end, so that every piece has whole ones behind it.
    uint64_t left = bytes;
    for (uint64_t whole = 0; left > 0; ++whole) {
      const uint64_t here = std::min<uint64_t>(Crc32Piece::kBytesMax, left);
      left -= here;
      const uint32_t power = FullPieces(whole);
      const uint32_t weight = behind == Crc32Shift(0) ? power : Crc32Times(behind, power);
      *--piece = {start + left, static_cast<uint32_t>(here), weight, result, 0};
    }
    if (range > 0) behind = Crc32Times(behind, Crc32Shift(bytes));
  }
}

}  // namespace orbitkv::cuda
