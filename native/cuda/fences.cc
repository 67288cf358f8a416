#include "cuda/fences.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/clock.h"
#include "base/keep_for_ever.h"

namespace orbitkv::cuda {
namespace {

/// A word that is late is asked about in the driver this often.
constexpr int64_t kQueryUs = 1'000;

}  // namespace

/// Counts itself, because the driver may call after the stream has gone, and a wake may not need
/// memory of its own.
struct Fences::WakeTarget {
  std::shared_ptr<CompletionSink> sink;
  std::atomic<uint32_t> holders{1};

  void Hold() { holders.fetch_add(1, std::memory_order_relaxed); }

  /// The host's half of a wake: on a thread of the driver, which may call nothing of the driver.
  static void Wake(void* passed) {
    auto* target = static_cast<WakeTarget*>(passed);
    target->sink->Wake();
    LetGo()(target);
  }
};

void Fences::LetGo::operator()(WakeTarget* target) const {
  if (target->holders.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::unique_ptr<WakeTarget> last(target);
}

Fences::Fences(CudaDevice& device, StreamPointer stream, TileArena& arena,
               std::shared_ptr<CompletionSink> sink)
    : device_(device),
      driver_(device.driver()),
      stream_(stream),
      arena_(arena),
      wake_(std::make_unique<WakeTarget>().release()),
      words_(driver_.cuStreamWriteValue32 != nullptr) {
  wake_->sink = std::move(sink);
  events_.reserve(kPendingMax);
  driver_.Require(driver_.cuStreamCreate(&watch_, kStreamNonBlocking), "Cannot make a stream");
}

Fences::~Fences() {
  // A lost device may still owe calls, which never come and so never let go.
  if (device_.failed()) KeepForEver(std::shared_ptr<WakeTarget>(wake_.release(), LetGo()));
  // In a dead context these fail, and its memory ends with the process.
  if (device_.MakeCurrent() != kSuccess) return;
  for (const EventPointer event : events_) driver_.cuEventDestroy(event);
  driver_.cuStreamDestroy(watch_);
}

bool Fences::WriteWord(uint32_t number) {
  if (!words_) return false;
  const Result written =
      driver_.cuStreamWriteValue32(stream_, arena_.AddressOf(arena_.word()), number, 0);
  if (written == kNotSupported) words_ = false;
  device_.Note(written);
  return written == kSuccess;
}

EventPointer Fences::RecordEvent() {
  EventPointer event = nullptr;
  if (events_.empty()) {
    if (device_.Note(driver_.cuEventCreate(&event, kEventNoTiming)) || event == nullptr)
      return nullptr;
  } else {
    event = events_.back();
    events_.pop_back();
  }
  const Result recorded = driver_.cuEventRecord(event, stream_);
  if (recorded == kSuccess) return event;
  device_.Note(recorded);
  events_.push_back(event);
  return nullptr;
}

uint32_t Fences::Place() {
  const uint32_t number = ++last_;
  const bool worded = WriteWord(number);
  const EventPointer event = RecordEvent();
  blind_ = !worded && event == nullptr;
  pending_.push_back({number, event, arena_.head(), false});
  return number;
}

uint32_t Fences::word() const {
  return std::atomic_ref<uint32_t>(*arena_.word()).load(std::memory_order_acquire);
}

void Fences::Pass() {
  const Fence& fence = pending_.front();
  passed_ = fence.number;
  blind_ = blind_ && pending_.size() > 1;
  arena_.Release(fence.arena_end);
  if (fence.event != nullptr) events_.push_back(fence.event);
  pending_.pop_front();
}

Result Fences::Ask(const Fence& fence) const {
  return fence.event == nullptr ? driver_.cuStreamQuery(stream_)
                                : driver_.cuEventQuery(fence.event);
}

void Fences::Reap(int64_t due_us) noexcept {
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
    const Result result = Ask(pending_.front());
    if (result == kNotReady) return;
    if (result != kSuccess) return device_.Fail(result);
    Pass();
  }
}

void Fences::WakeAtEnds() noexcept {
  if (pending_.empty() || pending_.back().armed || device_.MakeCurrent() != kSuccess) return;
  for (size_t i = 0; i < pending_.size(); ++i) {
    Fence& fence = pending_[i];
    // A wake that is refused, or has no event, is late by a port's longest sleep, no more.
    if (std::exchange(fence.armed, true) || fence.event == nullptr) continue;
    if (driver_.cuStreamWaitEvent(watch_, fence.event, 0) != kSuccess) continue;
    wake_->Hold();
    if (driver_.cuLaunchHostFunc(watch_, WakeTarget::Wake, wake_.get()) != kSuccess)
      LetGo()(wake_.get());
  }
}

}  // namespace orbitkv::cuda
