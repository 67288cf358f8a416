#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cuda/crc32_runs.h"
#include "cuda/cuda_device.h"
#include "cuda/kernels.h"

namespace orbitkv::cuda {

/// The launches of orbitkv_crc32 on one stream. Runs lie on the device before a launch: a warp that
/// fetches its own over the bus waits longer for the 24 bytes than it works on 16 KiB.
class RunSums {
 public:
  /// The device is entered. Throws SystemError.
  RunSums(CudaDevice& device, const Kernels& kernels);

  /// Of orbitkv_crc32, at once.
  uint64_t warps() const;

  /// Adds the remainders of `written`, which lie at `runs`, to `sums`.
  Result Launch(StreamPointer stream, DeviceAddress runs, const Crc32Runs& written,
                DeviceAddress sums);

 private:
  const CudaDevice& device_;
  const Kernels& kernels_;
  DeviceAddress powers_ = 0;
  bool powers_brought_ = false;
  std::shared_ptr<const void> memory_;
};

}  // namespace orbitkv::cuda
