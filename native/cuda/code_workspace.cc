#include "cuda/code_workspace.h"

#include <algorithm>

namespace orbitkv::cuda {
namespace {

/// What an arena is a multiple of, as far as the budget allows: as the driver hands memory out.
constexpr uint64_t kGrainBytes = uint64_t{2} << 20;

}  // namespace

Result CodeWorkspace::Hold(uint64_t bytes) {
  if (Has(bytes)) return kSuccess;
  // Twice what was too little, so that batches that grow do not allocate each time.
  uint64_t wanted = std::max(bytes, 2 * held_bytes_);
  wanted = std::min((wanted + kGrainBytes - 1) / kGrainBytes * kGrainBytes, budget_bytes_);
  Free();
  const Result result = device_.driver().cuMemAlloc(&address_, wanted);
  if (result != kSuccess) {
    address_ = 0;
    device_.Note(result);
    return result;
  }
  held_bytes_ = wanted;
  ++allocations_;
  return kSuccess;
}

void CodeWorkspace::Free() {
  if (held_bytes_ == 0) return;
  held_bytes_ = 0;
  // In a dead context this fails, and its memory ends with the process.
  if (device_.MakeCurrent() == kSuccess) device_.driver().cuMemFree(address_);
}

}  // namespace orbitkv::cuda
