#include "cuda/choice.h"

#include <algorithm>

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

constexpr uint64_t kBusTileBytes = 8 << 10;

}  // namespace

Shape ShapeOf(std::span<const Tile> runs, Way way) {
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

Cutting CutForBus(uint64_t tile_bytes) {
  const uint64_t tile = tile_bytes == 0 ? kBusTileBytes : tile_bytes;
  return {tile, tile + tile / 2 - 1};
}

Cutting CutForSlices(const Slicing& slicing) {
  const uint64_t tile = uint64_t{slicing.slices} * slicing.slice_bytes;
  return {tile, tile};
}

}  // namespace orbitkv::cuda
