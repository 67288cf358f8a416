#pragma once

#include <cstdint>

#include "cuda/cuda_device.h"

namespace orbitkv::cuda {

/// Device memory for the codings of one direction of a stream: one arena, kept for later batches
/// until it is freed, at most as long as the budget. It grows by being released first, so that no
/// more than the budget is ever held. Batches of a stream follow one another on the device, so each
/// may use all of it.
class CodeWorkspace {
 public:
  CodeWorkspace(CudaDevice& device, uint64_t budget_bytes)
      : device_(device), budget_bytes_(budget_bytes) {}
  CodeWorkspace(const CodeWorkspace&) = delete;
  CodeWorkspace& operator=(const CodeWorkspace&) = delete;
  ~CodeWorkspace() { Free(); }

  /// Whether the arena is long enough as it is.
  bool Has(uint64_t bytes) const { return bytes <= held_bytes_; }
  /// Makes it so; nothing on the device may use it. The context is current. kSuccess, or what the
  /// driver says: then nothing is held.
  Result Hold(uint64_t bytes);
  DeviceAddress address() const { return address_; }
  /// Gives the arena back; nothing on the device may use it.
  void Free();

  /// Bytes that batches in flight use, counted for the gauge.
  void Lend(uint64_t bytes) { reserved_bytes_ += bytes; }
  void TakeBack(uint64_t bytes) { reserved_bytes_ -= bytes; }

  uint64_t budget_bytes() const { return budget_bytes_; }
  uint64_t reserved_bytes() const { return reserved_bytes_; }
  uint64_t held_bytes() const { return held_bytes_; }
  uint64_t allocations() const { return allocations_; }

 private:
  CudaDevice& device_;
  const uint64_t budget_bytes_;
  DeviceAddress address_ = 0;
  uint64_t held_bytes_ = 0;
  uint64_t reserved_bytes_ = 0;
  uint64_t allocations_ = 0;
};

}  // namespace orbitkv::cuda
