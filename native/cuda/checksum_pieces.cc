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

/// x to the power of 8 * kBytesMin * i, for as many as the largest item has. A product takes longer
/// than a kernel needs for a piece, so these are made once.
const std::array<uint32_t, 1024>& Powers() {
  static const auto powers = [] {
    std::array<uint32_t, 1024> made;
    const uint32_t full = Crc32Shift(Crc32Piece::kBytesMin);
    made[0] = Crc32Shift(0);
    for (size_t i = 1; i < made.size(); ++i) made[i] = Crc32Times(made[i - 1], full);
    return made;
  }();
  return powers;
}

/// Launches that cover so much have pieces of kBytesMax.
constexpr uint64_t kManyBytes = uint64_t{192} << 20;

uint64_t PiecesOf(uint64_t bytes, uint64_t piece_bytes) {
  return (bytes + piece_bytes - 1) / piece_bytes;
}

}  // namespace

uint64_t PieceCount(const ChecksumStep& step) {
  return RangeCount(step) * PiecesOf(RangeBytes(step), Crc32Piece::kBytesMin);
}

uint64_t CoveredBytes(const ChecksumStep& step) {
  return step.bytes / step.segment_stride_bytes * step.segment_bytes;
}

uint32_t PieceBytes(uint64_t bytes) {
  uint32_t piece = Crc32Piece::kBytesMax;
  for (uint64_t enough = kManyBytes; bytes < enough && piece > Crc32Piece::kBytesMin; enough /= 2)
    piece /= 2;
  return piece;
}

uint64_t WritePieces(const ChecksumStep& step, uint32_t result, uint32_t piece_bytes,
                     Crc32Piece* pieces) {
  const auto& powers = Powers();
  const uint32_t one = powers[0];
  const auto first = reinterpret_cast<uint64_t>(step.granule);
  const uint64_t bytes = RangeBytes(step);
  const uint64_t stride = piece_bytes / Crc32Piece::kBytesMin;
  const uint64_t count = RangeCount(step) * PiecesOf(bytes, piece_bytes);
  Crc32Piece* piece = pieces + count;
  uint32_t behind = one;  // what follows this range
  for (uint64_t range = RangeCount(step); range-- > 0;) {
    const uint64_t start = first + range * step.segment_stride_bytes;
    // From its end, so that every piece has whole ones behind it.
    uint64_t left = bytes;
    for (uint64_t power = 0; left > 0; power += stride) {
      const uint64_t here = std::min<uint64_t>(piece_bytes, left);
      left -= here;
      uint32_t weight =
          power < powers.size() ? powers[power] : Crc32Shift(power * Crc32Piece::kBytesMin);
      if (behind != one) weight = Crc32Times(behind, weight);
      *--piece = {start + left, static_cast<uint32_t>(here), weight, result, 0};
    }
    if (range > 0) behind = Crc32Times(behind, Crc32Shift(bytes));
  }
  return count;
}

}  // namespace orbitkv::cuda
