#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/fixed_ring.h"
#include "cuda/cuda_device.h"
#include "cuda/tile_arena.h"
#include "port/completion_sink.h"

namespace orbitkv::cuda {

/// How the host learns what a stream of the device has passed. Behind each piece of work stands a
/// fence with a number:
///
///   word    the device writes the number into pinned memory; polled for the price of a load
///   event   asked when the word is late: it says what went wrong; and waited for by the watch
///   watch   a second stream that waits for events and then calls the host, so that a port that has
///           gone to sleep is woken without holding up the first stream
///
/// A fence that has passed gives the descriptors before it back to the arena. Nothing but the
/// making allocates or throws. Used by the thread of the stream's port.
///
/// A driver that refuses a fence has not lost the device, and what the stream was given goes on:
/// such a fence passes when the whole stream is idle, and nothing is queued behind it before.
class Fences {
 public:
  /// Fences on the device at once: more are not needed to keep it busy, and a driver makes its
  /// caller wait when some thousand commands are queued.
  static constexpr size_t kPendingMax = 256;

  /// The device is entered; `stream` and `arena` outlive this. Throws SystemError.
  Fences(CudaDevice& device, StreamPointer stream, TileArena& arena,
         std::shared_ptr<CompletionSink> sink);
  Fences(const Fences&) = delete;
  Fences& operator=(const Fences&) = delete;
  ~Fences();

  /// Whether one can be placed now: asked before the work that it will stand behind is queued.
  bool HasRoom() const { return !pending_.full() && !blind_; }
  /// Behind all that the stream was given so far; returns its number. The context is current.
  uint32_t Place();

  bool HasPassed(uint32_t fence) const { return static_cast<int32_t>(passed_ - fence) >= 0; }
  uint32_t passed() const { return passed_; }
  size_t pending() const { return pending_.size(); }

  /// Looks at the word and, when it is late (nothing has passed at `due_us`), asks the driver.
  void Reap(int64_t due_us) noexcept;
  /// The owner is about to sleep: every fence that is pending wakes the sink.
  void WakeAtEnds() noexcept;
  /// The device is lost: nothing passes any more.
  void Forget() noexcept { pending_.clear(); }

 private:
  struct Fence {
    uint32_t number = 0;
    EventPointer event = nullptr;  // null: the driver gave none
    uint64_t arena_end = 0;
    bool armed = false;
  };

  /// The number that the device wrote last.
  uint32_t word() const;
  bool WriteWord(uint32_t number);
  /// Null when the driver gives no event, or does not record it.
  EventPointer RecordEvent();
  /// kSuccess: the fence has passed, and so has all before it.
  Result Ask(const Fence& fence) const;
  void Pass();

  CudaDevice& device_;
  const Driver& driver_;
  const StreamPointer stream_;
  TileArena& arena_;
  /// Shared with the calls that the driver still owes.
  struct WakeTarget;
  struct LetGo {
    void operator()(WakeTarget* target) const;
  };
  std::unique_ptr<WakeTarget, LetGo> wake_;
  StreamPointer watch_ = nullptr;
  std::vector<EventPointer> events_;
  FixedRing<Fence, kPendingMax> pending_;
  bool words_;
  bool blind_ = false;  // the last fence has neither word nor event
  uint32_t last_ = 0;
  uint32_t passed_ = 0;
  int64_t next_query_us_ = 0;
};

}  // namespace orbitkv::cuda
