#include "cuda/code_hold.h"

#include <cerrno>

namespace orbitkv::cuda {

void CodeHold::Begin(int32_t device, size_t items) {
  held_ = std::make_shared<HeldCodes>();
  held_->device = device;
  held_->codes.resize(items);
  state_ = State::kCoding;
}

void CodeHold::Abandon() {
  held_.reset();
  state_ = State::kNone;
}

void CodeHold::Ended(const CodeWork& work, int32_t result) {
  if (result != 0) return Abandon();
  const CodeBatch& batch = work.batches.front();
  for (size_t i = 0; i < batch.count; ++i) {
    const CodeItem& item = batch.items[i];
    if (item.stored > 0) held_->codes[i] = {encoding_.address() + item.coded, item.stored};
  }
  bytes_ = batch.units == 0 ? 0 : batch.arena_bytes;
  encoding_.Lend(bytes_);
  state_ = State::kHeld;
}

int CodeHold::Release() {
  if (state_ == State::kNone) return -EINVAL;
  if (state_ == State::kCoding || lent()) return -EBUSY;
  encoding_.TakeBack(bytes_);
  Abandon();
  return 0;
}

}  // namespace orbitkv::cuda
