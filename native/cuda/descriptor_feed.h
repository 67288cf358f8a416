#pragma once

#include <cstddef>
#include <memory>

#include "cuda/cuda_device.h"
#include "cuda/tile_arena.h"

namespace orbitkv::cuda {

/// Descriptors brought into the device's own memory before the kernel that reads them: by a stream
/// beside the kernel's, so that they arrive while what is queued before it still runs. Without this
/// a kernel fetches them over the bus, and moves nothing while it waits for the first.
///
/// Each region of the arena has its place in a mirror of it, which is written again when the
/// arena's is: after the fence behind the kernel.
class DescriptorFeed {
 public:
  /// The device is entered; `arena` outlives this. Throws SystemError.
  DescriptorFeed(CudaDevice& device, const TileArena& arena);
  DescriptorFeed(const DescriptorFeed&) = delete;
  DescriptorFeed& operator=(const DescriptorFeed&) = delete;
  ~DescriptorFeed();

  /// Where a kernel that is queued on `stream` next finds a region of the arena: in the mirror, or,
  /// when the driver refuses, in the arena.
  DeviceAddress Feed(StreamPointer stream, const void* region, size_t bytes);

 private:
  CudaDevice& device_;
  const Driver& driver_;
  const TileArena& arena_;
  DeviceAddress mirror_ = 0;
  std::shared_ptr<const void> memory_;
  StreamPointer stream_ = nullptr;
  EventPointer fed_ = nullptr;
};

}  // namespace orbitkv::cuda
