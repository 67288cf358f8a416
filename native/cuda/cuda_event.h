#pragma once

#include <memory>

#include "device/event.h"

namespace orbitkv::cuda {

class CudaStream;

/// A mark among the jobs of a CudaStream. Used by the thread of its stream's port.
class CudaEvent : public Event {
 public:
  bool Passed() const override;
  void Synchronize() const override;

 private:
  friend class CudaStream;
  struct Mark {
    bool passed = false;
    CudaStream* stream = nullptr;  // null once passed
  };
  std::shared_ptr<Mark> mark_;  // null before the first recording
};

}  // namespace orbitkv::cuda
