#include "cuda/direct_copies.h"

#include <algorithm>
#include <cstddef>

namespace orbitkv::cuda {
namespace {

std::byte* Pointer(uint64_t address) { return reinterpret_cast<std::byte*>(address); }

bool Zeroes(std::span<const Tile> runs) {
  return std::any_of(runs.begin(), runs.end(), [](const Tile& run) { return run.source == 0; });
}

}  // namespace

Result DirectCopies::Launch(StreamPointer stream, Way way, std::span<const Tile> runs) {
  if (batches_ && runs.size() > 1 && !Zeroes(runs)) {
    const Result batched = Batch(stream, runs);
    if (batched != kNotSupported) return batched;
    batches_ = false;
  }
  for (const Tile& run : runs)
    if (const Result result = One(stream, way, run); result != kSuccess) return result;
  return kSuccess;
}

Result DirectCopies::Batch(StreamPointer stream, std::span<const Tile> runs) {
  for (size_t i = 0; i < runs.size(); ++i) {
    targets_[i] = runs[i].target;
    sources_[i] = runs[i].source;
    sizes_[i] = runs[i].bytes;
  }
  CopyAttributes attributes{};
  attributes.source_access_order = kAccessInStreamOrder;
  size_t failed = 0;
  return driver_.cuMemcpyBatchAsync(targets_.data(), sources_.data(), sizes_.data(), runs.size(),
                                    &attributes, attribute_first_.data(), 1, &failed, stream);
}

Result DirectCopies::One(StreamPointer stream, Way way, const Tile& run) {
  if (run.source == 0) return driver_.cuMemsetD8Async(run.target, 0, run.bytes, stream);
  if (way == Way::kToDevice)
    return driver_.cuMemcpyHtoDAsync(run.target, Pointer(run.source), run.bytes, stream);
  if (way == Way::kFromDevice)
    return driver_.cuMemcpyDtoHAsync(Pointer(run.target), run.source, run.bytes, stream);
  return driver_.cuMemcpyDtoDAsync(run.target, run.source, run.bytes, stream);
}

}  // namespace orbitkv::cuda
