#include "port/completion_sink.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstdint>

#include "base/system_error.h"

namespace orbitkv {

CompletionSink::CompletionSink() : event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!event_.valid()) throw SystemError(errno, "Cannot create an eventfd");
}

void CompletionSink::Expect() {
  const std::lock_guard lock(mutex_);
  const size_t wanted = queue_.size() + expected_ + 1;
  if (wanted > queue_.capacity()) queue_.reserve(2 * wanted);
  ++expected_;
}

void CompletionSink::Post(const Completion& completion) {
  bool first;
  {
    const std::lock_guard lock(mutex_);
    first = queue_.empty();
    queue_.push_back(completion);
    --expected_;
  }
  // The owner takes everything at once and looks again before it sleeps, so one wake a batch is
  // enough.
  if (first) Wake();
}

void CompletionSink::PostLocal(const Completion& completion) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(completion);
  --expected_;
}

void CompletionSink::Wake() {
  const uint64_t one = 1;
  // Fails only when 2^64 - 2 wakes are unread, which wakes as well.
  [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof one);
}

void CompletionSink::Take(std::vector<Completion>& out) {
  const std::lock_guard lock(mutex_);
  out.insert(out.end(), queue_.begin(), queue_.end());
  queue_.clear();
}

void CompletionSink::Drop() {
  const std::lock_guard lock(mutex_);
  queue_.clear();
}

bool CompletionSink::empty() const {
  const std::lock_guard lock(mutex_);
  return queue_.empty();
}

void CompletionSink::ClearWake() {
  uint64_t wakes;
  [[maybe_unused]] const auto read = ::read(event_.get(), &wakes, sizeof wakes);
}

}  // namespace orbitkv
