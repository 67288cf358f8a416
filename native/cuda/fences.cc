#include "cuda/fences.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/clock.h"

namespace orbitkv::cuda {
namespace {

/// A word that is late is asked about in the driver this often.
constexpr int64_t kQueryUs = 1'000;

/// The host's half of a wake: on a thread of the driver, which may call nothing of the driver.
void WakeSink(void* passed) {
  const std::unique_ptr<std::shared_ptr<CompletionSink>> sink(
      static_cast<std::shared_ptr<CompletionSink>*>(passed));
  (*sink)->Wake();
}

}  // namespace

Fences::Fences(CudaDevice& device, StreamPointer stream, TileArena& arena,
               std::shared_ptr<CompletionSink> sink)
    : device_(device),
      driver_(device.driver()),
      stream_(stream),
      arena_(arena),
      sink_(std::move(sink)),
      words_(driver_.cuStreamWriteValue32 != nullptr) {
  events_.reserve(kPendingMax);
  driver_.Require(driver_.cuStreamCreate(&watch_, kStreamNonBlocking), "Cannot make a stream");
}

Fences::~Fences() {
  // In a dead context these fail, and its memory ends with the process.
  if (device_.MakeCurrent() != kSuccess) return;
  for (const EventPointer event : events_) driver_.cuEventDestroy(event);
  driver_.cuStreamDestroy(watch_);
}

EventPointer Fences::TakeEvent() {
  EventPointer event = nullptr;
  if (!events_.empty()) {
    event = events_.back();
    events_.pop_back();
  } else if (driver_.cuEventCreate(&event, kEventNoTiming) != kSuccess) {
    return nullptr;
  }
  return event;
}

uint32_t Fences::Place() {
  const uint32_t number = ++last_;
  if (words_) {
    const Result written =
        driver_.cuStreamWriteValue32(stream_, arena_.AddressOf(arena_.word()), number, 0);
    if (written == kNotSupported)
      words_ = false;
    else if (written != kSuccess)
      device_.Fail(written);
  }
  const EventPointer event = TakeEvent();
  const Result recorded = event == nullptr ? kOutOfMemory : driver_.cuEventRecord(event, stream_);
  // Without a fence nobody would know when the device has done.
  if (recorded != kSuccess) device_.Fail(recorded);
  pending_.push_back({number, event, arena_.head(), false});
  return number;
}

uint32_t Fences::word() const {
  return std::atomic_ref<uint32_t>(*arena_.word()).load(std::memory_order_acquire);
}

void Fences::Pass() {
  const Fence& fence = pending_.front();
  passed_ = fence.number;
  arena_.Release(fence.arena_end);
  if (fence.event != nullptr) events_.push_back(fence.event);
  pending_.pop_front();
}

void Fences::Reap(int64_t due_us) {
  if (words_ && !pending_.empty()) {
    const uint32_t written = word();
    while (!pending_.empty() && static_cast<int32_t>(written - pending_.front().number) >= 0)
      Pass();
    if (pending_.empty()) return;
    const int64_t now_us = MonotonicUs();
    if (now_us < std::max(due_us, next_query_us_)) return;
    next_query_us_ = now_us + kQueryUs;
  }
  if (pending_.empty()) return;
  if (const Result entered = device_.MakeCurrent(); entered != kSuccess)
    return device_.Fail(entered);
  while (!pending_.empty()) {
    const Result result = driver_.cuEventQuery(pending_.front().event);
    if (result == kNotReady) return;
    if (result != kSuccess) return device_.Fail(result);
    Pass();
  }
}

void Fences::WakeAtEnds() {
  if (pending_.empty() || pending_.back().armed || device_.MakeCurrent() != kSuccess) return;
  for (size_t i = 0; i < pending_.size(); ++i) {
    Fence& fence = pending_[i];
    if (std::exchange(fence.armed, true)) continue;
    if (driver_.cuStreamWaitEvent(watch_, fence.event, 0) != kSuccess) continue;
    auto sink = std::make_unique<std::shared_ptr<CompletionSink>>(sink_);
    // A refused wake is late by a port's longest sleep, no more.
    if (driver_.cuLaunchHostFunc(watch_, WakeSink, sink.get()) == kSuccess) [[maybe_unused]]
      const auto owned = sink.release();
  }
}

}  // namespace orbitkv::cuda
