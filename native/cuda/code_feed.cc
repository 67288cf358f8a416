#include "cuda/code_feed.h"

namespace orbitkv::cuda {

CodeFeed::CodeFeed(CudaDevice& device)
    : device_(device),
      driver_(device.driver()),
      memory_(device.Allocate(kPlaces * CodeBatch::kHeadBytes, &memory_at_)) {
  // What an exception would leave behind is little, and ends with the context.
  driver_.Require(driver_.cuEventCreate(&brought_, kEventNoTiming), "Cannot make an event");
  for (EventPointer& used : used_)
    driver_.Require(driver_.cuEventCreate(&used, kEventNoTiming), "Cannot make an event");
  driver_.Require(driver_.cuStreamCreate(&stream_, kStreamNonBlocking), "Cannot make a stream");
}

CodeFeed::~CodeFeed() {
  // In a dead context these fail, and its memory ends with the process.
  if (device_.MakeCurrent() != kSuccess) return;
  driver_.cuStreamSynchronize(stream_);
  driver_.cuEventDestroy(brought_);
  for (const EventPointer used : used_) driver_.cuEventDestroy(used);
  driver_.cuStreamDestroy(stream_);
}

DeviceAddress CodeFeed::Bring(StreamPointer stream, const void* head, size_t bytes) {
  const DeviceAddress place = memory_at_ + next_ * CodeBatch::kHeadBytes;
  // An event that was never recorded has passed.
  Result result = driver_.cuStreamWaitEvent(stream_, used_[next_], 0);
  if (result == kSuccess) result = driver_.cuMemcpyHtoDAsync(place, head, bytes, stream_);
  if (result == kSuccess) result = driver_.cuEventRecord(brought_, stream_);
  if (result == kSuccess) result = driver_.cuStreamWaitEvent(stream, brought_, 0);
  device_.Note(result);
  if (result != kSuccess) return 0;
  next_ = (next_ + 1) % kPlaces;
  return place;
}

void CodeFeed::Used(StreamPointer stream, DeviceAddress place) {
  if (place < memory_at_ || place >= memory_at_ + kPlaces * CodeBatch::kHeadBytes) return;
  const size_t number = (place - memory_at_) / CodeBatch::kHeadBytes;
  device_.Note(driver_.cuEventRecord(used_[number], stream));
}

}  // namespace orbitkv::cuda
