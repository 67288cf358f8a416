#include "cuda/checksum_pieces.h"

#include <algorithm>

#include "codec/crc32_combine.h"

namespace orbitkv::cuda {
namespace {

/// The contiguous ranges that a checksum covers, first to last.
template <class Body>
void ForEachRange(const ChecksumStep& step, Body&& body) {
  const auto first = reinterpret_cast<uint64_t>(step.granule);
  if (step.segment_bytes == step.segment_stride_bytes) {
    body(first, step.bytes);
    return;
  }
  for (uint64_t at = 0; at < step.bytes; at += step.segment_stride_bytes)
    body(first + at, step.segment_bytes);
}

uint64_t PiecesOf(uint64_t bytes) {
  return (bytes + Crc32Piece::kBytesMax - 1) / Crc32Piece::kBytesMax;
}

}  // namespace

uint64_t PieceCount(const ChecksumStep& step) {
  if (step.segment_bytes == step.segment_stride_bytes) return PiecesOf(step.bytes);
  return step.bytes / step.segment_stride_bytes * PiecesOf(step.segment_bytes);
}

uint64_t CoveredBytes(const ChecksumStep& step) {
  return step.bytes / step.segment_stride_bytes * step.segment_bytes;
}

void WritePieces(const ChecksumStep& step, uint32_t result, Crc32Piece* pieces) {
  uint64_t count = 0;
  ForEachRange(step, [&](uint64_t address, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += Crc32Piece::kBytesMax) {
      const uint64_t here = std::min<uint64_t>(Crc32Piece::kBytesMax, bytes - at);
      pieces[count++] = {address + at, static_cast<uint32_t>(here), 0, result, 0};
    }
  });
  static const uint32_t full = Crc32Shift(Crc32Piece::kBytesMax);
  // From the last to the first: each is followed by one more piece than the one behind it.
  uint32_t weight = Crc32Shift(0);
  while (count-- > 0) {
    pieces[count].weight = weight;
    const uint32_t bytes = pieces[count].bytes;
    weight = Crc32Times(weight, bytes == Crc32Piece::kBytesMax ? full : Crc32Shift(bytes));
  }
}

}  // namespace orbitkv::cuda
