#include "cuda/crc32_runs.h"

#include <algorithm>

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

uint64_t Parts(uint64_t bytes, uint64_t part_bytes) {
  return (bytes + part_bytes - 1) / part_bytes;
}

/// A piece for every warp, so that none has two while others have one: of each run one piece may
/// be short. Short pieces cost more by the byte than they save.
uint32_t PieceBytes(uint64_t runs, uint64_t covered, uint64_t warps) {
  constexpr uint64_t kLeast = 8 << 10;
  const uint64_t pieces = std::max<uint64_t>(warps > 2 * runs ? warps - runs : warps / 2, 1);
  const uint64_t bytes = Parts(covered, pieces * kCrc32GrainBytes) * kCrc32GrainBytes;
  return static_cast<uint32_t>(std::clamp(bytes, kLeast, Crc32Run::kBytesMax));
}

}  // namespace

const Crc32Powers& GrainPowers() {
  static const Crc32Powers powers = [] {
    Crc32Powers made;
    const uint32_t grain = Crc32Shift(kCrc32GrainBytes);
    made[0] = Crc32Shift(0);
    for (size_t i = 1; i < made.size(); ++i) made[i] = Crc32Times(made[i - 1], grain);
    return made;
  }();
  return powers;
}

uint64_t RunCount(const ChecksumStep& step) {
  return RangeCount(step) * Parts(RangeBytes(step), Crc32Run::kBytesMax);
}

uint64_t CoveredBytes(const ChecksumStep& step) {
  return step.bytes / step.segment_stride_bytes * step.segment_bytes;
}

Crc32Runs::Crc32Runs(Crc32Run* at, uint64_t runs, uint64_t covered, uint64_t warps)
    : at_(at), piece_bytes_(PieceBytes(runs, covered, warps)) {}

void Crc32Runs::Add(const ChecksumStep& step, uint32_t result) {
  const uint64_t bytes = RangeBytes(step);
  const uint64_t runs = RunCount(step);
  // Weights are known from the end, numbers of pieces from the start.
  uint32_t behind = Crc32Shift(0);
  const uint32_t range_shift = runs > 1 ? Crc32Shift(bytes) : behind;
  Crc32Run* run = at_ + count_ + runs;
  for (uint64_t range = RangeCount(step); range-- > 0;) {
    const uint64_t start =
        reinterpret_cast<uint64_t>(step.granule) + range * step.segment_stride_bytes;
    for (uint64_t left = bytes; left > 0;) {
      const uint64_t here = std::min(left, Crc32Run::kBytesMax);
      left -= here;
      *--run = {start + left, static_cast<uint32_t>(here), behind, result, 0};
      const uint32_t shift = here == bytes ? range_shift : Crc32Shift(here);
      if (left > 0 || range > 0) behind = Crc32Times(behind, shift);
    }
  }
  for (const Crc32Run* end = run + runs; run != end; ++run) {
    run->first_piece = pieces_;
    pieces_ += static_cast<uint32_t>(Parts(run->bytes, piece_bytes_));
  }
  count_ += static_cast<uint32_t>(runs);
}

}  // namespace orbitkv::cuda
