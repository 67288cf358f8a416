#include "cuda/kernel_copies.h"

#include <algorithm>

namespace orbitkv::cuda {
namespace {

/// Blocks of a copy kernel over the bus: measured, 8 saturate it; more would take multiprocessors
/// from the engine.
constexpr uint32_t kBusBlocks = 16;
/// Blocks for each multiprocessor inside the device.
constexpr uint32_t kInsideBlocks = 2;
constexpr uint32_t kBlockWarps = 16;
/// The last tiles of a job may need little; a region of less than this is not worth a launch.
constexpr size_t kTilesLeast = 64;

}  // namespace

KernelCopies::KernelCopies(CudaDevice& device, const Kernels& kernels, TileArena& arena,
                           const StreamOptions& options, uint64_t pool_shift)
    : device_(device),
      kernels_(kernels),
      arena_(arena),
      options_(options),
      pool_shift_(pool_shift) {
  if (options.descriptors == Descriptors::kFed)
    feed_ = std::make_unique<DescriptorFeed>(device, arena);
}

KernelCopies::Plan KernelCopies::PlanFor(const Shape& shape) const {
  Plan plan;
  plan.inside = shape.way == Way::kInside;
  const uint32_t usual = plan.inside ? device_.multiprocessors() * kInsideBlocks : kBusBlocks;
  plan.blocks = options_.blocks == 0 ? usual : options_.blocks;
  if (plan.inside) {
    const uint64_t warps = uint64_t{usual} * kBlockWarps;
    plan.slicing = SliceFor(shape.bytes, shape.longest, warps, options_.tile_bytes);
    plan.cutting = CutForSlices(plan.slicing);
    return plan;
  }
  plan.cutting = CutForBus(options_.tile_bytes);
  (shape.way == Way::kToDevice ? plan.shift.source : plan.shift.target) = pool_shift_;
  return plan;
}

std::span<std::byte> KernelCopies::Reserve(const RunCursor& runs) {
  return arena_.Reserve(std::min(runs.left(), kTilesLeast) * sizeof(Tile),
                        TileArena::kRegionBytesMax);
}

Result KernelCopies::Launch(StreamPointer stream, std::span<std::byte> room, RunCursor& runs,
                            const Plan& plan) {
  auto* tiles = reinterpret_cast<Tile*>(room.data());
  const uint32_t count = runs.Cut(plan.cutting, plan.shift, {tiles, room.size() / sizeof(Tile)});
  arena_.Commit(count * sizeof(Tile));
  if (!plan.inside) return kernels_.Move(stream, arena_.AddressOf(tiles), count, plan.blocks);
  const DeviceAddress first =
      feed_ != nullptr ? feed_->Feed(stream, tiles, count * sizeof(Tile)) : arena_.AddressOf(tiles);
  return kernels_.Gather(stream, first, count, plan.slicing.slices, plan.slicing.slice_bytes,
                         plan.blocks, options_.gather == Gather::kWarps);
}

}  // namespace orbitkv::cuda
