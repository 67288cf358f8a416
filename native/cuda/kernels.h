#pragma once

#include <cstdint>
#include <string>

#include "cuda/driver.h"

namespace orbitkv::cuda {

/// What orbitkv_move and orbitkv_gather read: addresses that the device reaches; source 0 writes
/// zeros.
struct Tile {
  uint64_t target;
  uint64_t source;
  uint64_t bytes;
};
static_assert(sizeof(Tile) == 24);

/// Compiles a program of KernelSources(), or takes it from the cache, and loads it. The context is
/// current. Throws SystemError.
Module LoadProgram(const Driver& driver, const char* name, int architecture);
Function FindKernel(const Driver& driver, Module module, const char* name);

/// The kernels of one device that move and sum, loaded into its primary context.
class Kernels {
 public:
  /// Compiles or takes from the cache, and loads. The context is current. Throws SystemError.
  Kernels(const Driver& driver, int architecture);

  /// All pointers are addresses of the device. At most `blocks` blocks; fewer for few tiles.
  Result Move(StreamPointer stream, DeviceAddress tiles, uint32_t count, uint32_t blocks) const;
  /// The same inside the device: `slices` (1, 2 or 4) warps share a tile, `slice_bytes` each. By
  /// rounds of a block, or with `warps` each warp by itself.
  Result Gather(StreamPointer stream, DeviceAddress tiles, uint32_t count, uint32_t slices,
                uint32_t slice_bytes, uint32_t blocks, bool warps) const;
  /// Of `pieces` pieces in `count` runs (crc32_runs.h), as native/kernels/crc32_source.h has it.
  Result Crc32(StreamPointer stream, DeviceAddress runs, uint32_t count, uint32_t pieces,
               uint32_t piece_bytes, DeviceAddress powers, DeviceAddress results,
               uint32_t blocks) const;

 private:
  const Driver& driver_;
  Function move_;
  Function gather_;
  Function gather_warps_;
  Function crc32_;
};

}  // namespace orbitkv::cuda
