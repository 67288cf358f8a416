#include "cuda/runs.h"

#include <algorithm>
#include <cstring>

#include "codec/crc32_combine.h"

namespace orbitkv::cuda {
namespace {

/// Mean bytes of a run from which the copy engine is the faster, by way; and up to how many runs
/// the engine is asked whatever their size, because a kernel costs 4 us more than one copy.
///
/// Measured on an H200 (PCIe 5 x16, pinned peak 55.4 GB/s): 108 MiB in runs of 4/16/64/256 KiB by
/// batched copies 4.4/19/40/47 GB/s, by one warp a run 48.6 to 51 at every size; one run of 4 MiB
/// by the engine 52.6. Both meet near 1 MiB. `bench copy` prints the table of this machine.
struct Row {
  Way way;
  uint64_t direct_from_bytes;
  uint64_t direct_up_to_runs;
};
constexpr Row kTable[] = {
    {Way::kToDevice, 1 << 20, 2},
    {Way::kFromDevice, 1 << 20, 2},
    {Way::kInside, uint64_t{16} << 20, 1},
};

uint64_t Address(const std::byte* pointer) { return reinterpret_cast<uint64_t>(pointer); }

void Append(std::vector<Tile>& runs, Tile run) {
  if (run.bytes == 0) return;
  if (!runs.empty()) {
    Tile& last = runs.back();
    const bool target = last.target + last.bytes == run.target;
    const bool source = run.source == 0
                            ? last.source == 0
                            : last.source != 0 && last.source + last.bytes == run.source;
    if (target && source) {
      last.bytes += run.bytes;
      return;
    }
  }
  runs.push_back(run);
}

/// The contiguous ranges that a checksum covers, first to last.
template <class Body>
void ForEachRange(const ChecksumStep& step, Body&& body) {
  if (step.segment_bytes == step.segment_stride_bytes) {
    body(Address(step.granule), step.bytes);
    return;
  }
  for (uint64_t at = 0; at < step.bytes; at += step.segment_stride_bytes)
    body(Address(step.granule) + at, step.segment_bytes);
}

uint64_t PiecesOf(uint64_t bytes) {
  return (bytes + Crc32Piece::kBytesMax - 1) / Crc32Piece::kBytesMax;
}

}  // namespace

std::vector<Tile> PlanCopy(const CopyJob& job, CopyDirection direction) {
  std::vector<Tile> runs;
  const bool host = job.pool->device() == kHostDevice;
  for (const CopyStep& step : job.steps) {
    for (const TemplateItem& item : step.items) {
      std::byte* page = item.Page(step.page);
      std::byte* granule = step.granule + item.granule_offset_bytes;
      if (direction == CopyDirection::kPoolToPages) {
        Append(runs, {Address(page), Address(granule), item.bytes});
        continue;
      }
      Append(runs, {Address(granule), Address(page), item.bytes});
      const uint64_t padding = item.padded_bytes - item.bytes;
      if (padding == 0) continue;
      if (host)
        std::memset(granule + item.bytes, 0, padding);
      else
        Append(runs, {Address(granule + item.bytes), 0, padding});
    }
  }
  return runs;
}

std::vector<Tile> PlanMoves(const MoveJob& job) {
  std::vector<Tile> runs;
  for (const MoveStep& step : job.steps)
    Append(runs, {Address(step.target), Address(step.source), step.bytes});
  return runs;
}

Shape ShapeOf(const std::vector<Tile>& runs, Way way) {
  Shape shape{way, runs.size(), 0, 0, false};
  for (const Tile& run : runs) {
    shape.bytes += run.bytes;
    shape.longest = std::max(shape.longest, run.bytes);
    shape.zeroes = shape.zeroes || run.source == 0;
  }
  return shape;
}

Transfer Choose(Transfer asked, const Shape& shape, bool kernels) {
  if (!kernels) return Transfer::kDirect;
  if (asked != Transfer::kAuto) return asked;
  for (const Row& row : kTable) {
    if (row.way != shape.way) continue;
    const bool few = shape.runs <= row.direct_up_to_runs;
    const bool long_runs = shape.bytes >= row.direct_from_bytes * shape.runs;
    return few || long_runs ? Transfer::kDirect : Transfer::kKernel;
  }
  return Transfer::kKernel;
}

Slicing SliceFor(uint64_t bytes, uint64_t longest, uint64_t warps, uint64_t slice_bytes) {
  constexpr uint64_t kLeast = 2 << 10, kMost = 16 << 10, kStep = 1 << 10;
  const uint64_t even = (bytes / std::max<uint64_t>(warps, 1) + kStep - 1) / kStep * kStep;
  const uint64_t slice =
      slice_bytes != 0 ? (slice_bytes + 15) / 16 * 16 : std::clamp(even, kLeast, kMost);
  const uint32_t slices = longest <= slice ? 1 : longest <= 2 * slice ? 2 : 4;
  return {slices, static_cast<uint32_t>(slice)};
}

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

uint32_t LaneWeight(uint32_t lane) {
  return Crc32Shift(Crc32Piece::kBytesMax - uint64_t{lane + 1} * kCrc32LaneBytes);
}

}  // namespace orbitkv::cuda
