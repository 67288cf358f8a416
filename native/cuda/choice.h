#pragma once

#include <cstdint>
#include <span>

#include "cuda/kernels.h"
#include "cuda/runs.h"
#include "device/stream.h"

/// Which backend carries a job, and how a kernel's job is cut. Nothing here touches a device.
namespace orbitkv::cuda {

/// Shape of a job, for the choice.
struct Shape {
  Way way = Way::kInside;
  uint64_t runs = 0;
  uint64_t bytes = 0;
  uint64_t longest = 0;
  bool zeroes = false;
};
Shape ShapeOf(std::span<const Tile> runs, Way way);

/// kDirect or kKernel: what is asked, or, for kAuto, what the table says.
Transfer Choose(Transfer asked, const Shape& shape, bool kernels);

/// How a job inside the device is cut: tiles of at most slices * slice_bytes.
struct Slicing {
  uint32_t slices = 1;
  uint32_t slice_bytes = 0;
};
/// For a job of this shape whose longest run has `longest` bytes, so that `warps` warps all have
/// something to do and none has much; `slice_bytes` fixes it unless 0.
Slicing SliceFor(uint64_t bytes, uint64_t longest, uint64_t warps, uint64_t slice_bytes);

/// Over the bus: tiles of `tile_bytes`, or the measured default for 0.
Cutting CutForBus(uint64_t tile_bytes);
/// Inside the device: a tile is never more than its slices hold.
Cutting CutForSlices(const Slicing& slicing);

}  // namespace orbitkv::cuda
