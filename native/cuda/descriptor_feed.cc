#include "cuda/descriptor_feed.h"

namespace orbitkv::cuda {

DescriptorFeed::DescriptorFeed(CudaDevice& device, const TileArena& arena)
    : device_(device),
      driver_(device.driver()),
      arena_(arena),
      memory_(device.Allocate(TileArena::kBytes, &mirror_)) {
  driver_.Require(driver_.cuEventCreate(&fed_, kEventNoTiming), "Cannot make an event");
  const Result made = driver_.cuStreamCreate(&stream_, kStreamNonBlocking);
  if (made != kSuccess) driver_.cuEventDestroy(fed_);
  driver_.Require(made, "Cannot make a stream");
}

DescriptorFeed::~DescriptorFeed() {
  // In a dead context these fail, and its memory ends with the process. What a refused feed has
  // left on the stream reads the arena, which goes after it.
  if (device_.MakeCurrent() != kSuccess) return;
  driver_.cuStreamSynchronize(stream_);
  driver_.cuEventDestroy(fed_);
  driver_.cuStreamDestroy(stream_);
}

DeviceAddress DescriptorFeed::Feed(StreamPointer stream, const void* region, size_t bytes) {
  const DeviceAddress place = mirror_ + arena_.OffsetOf(region);
  Result result = driver_.cuMemcpyHtoDAsync(place, region, bytes, stream_);
  if (result == kSuccess) result = driver_.cuEventRecord(fed_, stream_);
  if (result == kSuccess) result = driver_.cuStreamWaitEvent(stream, fed_, 0);
  device_.Note(result);
  return result == kSuccess ? place : arena_.AddressOf(region);
}

}  // namespace orbitkv::cuda
