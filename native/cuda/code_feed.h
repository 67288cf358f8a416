#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "cuda/code_plan.h"
#include "cuda/cuda_device.h"

namespace orbitkv::cuda {

/// Heads of batches (CodeBatch), brought to the device by a stream beside the one that codes, so
/// that they arrive while what is queued there still runs. There are a few places, which batches
/// take in turn; the device itself waits with a place until the batch before has been through.
class CodeFeed {
 public:
  static constexpr size_t kPlaces = 4;

  /// The device is entered. Throws SystemError.
  explicit CodeFeed(CudaDevice& device);
  CodeFeed(const CodeFeed&) = delete;
  CodeFeed& operator=(const CodeFeed&) = delete;
  ~CodeFeed();

  /// Brings `bytes` of pinned memory to the next place, before what is queued on `stream` next;
  /// they stay as they are until `stream` has passed that. Returns the place, or 0 when the driver
  /// refuses: then nothing that counts was queued.
  DeviceAddress Bring(StreamPointer stream, const void* head, size_t bytes);
  /// What `stream` has up to here uses the place; nothing for an address that is none.
  void Used(StreamPointer stream, DeviceAddress place);

 private:
  CudaDevice& device_;
  const Driver& driver_;
  DeviceAddress memory_at_ = 0;
  std::shared_ptr<const void> memory_;
  StreamPointer stream_ = nullptr;
  EventPointer brought_ = nullptr;
  std::array<EventPointer, kPlaces> used_ = {};
  size_t next_ = 0;
};

}  // namespace orbitkv::cuda
