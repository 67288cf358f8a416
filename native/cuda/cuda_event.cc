#include "cuda/cuda_event.h"

#include <thread>

#include "cuda/cuda_stream.h"

namespace orbitkv::cuda {

bool CudaEvent::Passed() const {
  if (mark_ == nullptr || mark_->passed) return true;
  mark_->stream->Poll();
  return mark_->passed;
}

void CudaEvent::Synchronize() const {
  while (!Passed()) std::this_thread::yield();
}

}  // namespace orbitkv::cuda
