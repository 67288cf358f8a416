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

/// What orbitkv_crc32 reads.
struct Crc32Piece {
  static constexpr uint32_t kBytesMin = 16 << 10;  // unless there are no more
  static constexpr uint32_t kBytesMax = 64 << 10;
  uint64_t address;
  uint32_t bytes;
  uint32_t weight;
  uint32_t result;
  uint32_t unused;
};
static_assert(sizeof(Crc32Piece) == 24);

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
  Result Crc32(StreamPointer stream, DeviceAddress pieces, uint32_t count, DeviceAddress results,
               uint32_t blocks) const;

 private:
  const Driver& driver_;
  Function move_;
  Function gather_;
  Function gather_warps_;
  Function crc32_;
};

}  // namespace orbitkv::cuda
