#include "port/port.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/system_error.h"
#include "codec/crc32.h"
#include "posix/posix_queue.h"
#include "uring/uring_queue.h"

namespace orbitkv {

namespace {

// A thread that sleeps in native code cannot be terminated: it comes back at least this often.
constexpr int64_t kSleepUsMax = 100'000;
// Same request again after EAGAIN or EINTR before it fails.
constexpr uint8_t kAttemptsMax = 8;
constexpr int32_t kParkedNative = 2;
// A device is polled before a sleep when its end is expected this soon; being woken by it takes 40
// us.
constexpr int64_t kSpinUsMax = 100;
// Bytes after whose verification the rest waits for the next call: what has been verified goes on
// and is copied elsewhere while this thread verifies what follows.
constexpr uint64_t kVerifyBytesMax = 1 << 20;

std::unique_ptr<IoQueue> MakeQueue(IoKind io, const IoQueueOptions& options) {
  if (io == IoKind::kUring) return std::make_unique<uring::UringQueue>(options);
  return std::make_unique<posix::PosixQueue>(options);
}

/// Keeps the number of a stream that was closed.
class ClosedStream : public Stream {
 public:
  int Copy(int32_t, CopyDirection, std::span<const double>) override { return -EINVAL; }
  int Checksum(int32_t, std::span<const double>, size_t) override { return -EINVAL; }
  int Record(Event&) override { return -EINVAL; }
  int Wait(const Event&) override { return -EINVAL; }
  void Cancel() override {}
  void Detach() override {}
  size_t in_flight() const override { return 0; }
  bool Drain(int64_t) override { return true; }
};

}  // namespace

Port::Port(PortOptions options)
    : depth_(options.depth),
      submissions_(options.submissions),
      spans_(options.spans),
      completions_(options.completions),
      park_word_(options.park_word),
      pool_(std::move(options.pool)),
      results_(options.results),
      sink_(std::make_shared<CompletionSink>()),
      id_(sink_),
      slots_(depth_),
      vectors_(spans_.empty() ? 0 : depth_ * kWriteSpansMax) {
  free_slots_.reserve(depth_);
  for (uint32_t slot = depth_; slot-- > 0;) free_slots_.push_back(slot);
  queue_ = MakeQueue(options.io, {depth_, sink_->event_fd(), pool_, options.enlist});
}

int Port::Pump(int32_t count, int32_t min_complete, int32_t timeout_us) {
  if (count < 0 || static_cast<uint32_t>(count) > depth_ || min_complete < 0 || timeout_us < 0)
    return -EINVAL;
  written_ = 0;
  EmitBacklog();
  for (int32_t i = 0; i < count; ++i) Admit(static_cast<size_t>(i));
  return Collect(static_cast<uint32_t>(min_complete), std::min<int64_t>(timeout_us, kSleepUsMax),
                 Until::kEnough);
}

int Port::Park(int32_t timeout_us) {
  if (timeout_us < 0) return -EINVAL;
  written_ = 0;
  EmitBacklog();
  // A producer that changed the word after this has written the wake descriptor, which ends the
  // sleep.
  const bool sleeps = park_word_->load(std::memory_order_seq_cst) == kParkedNative;
  return Collect(sleeps ? 1 : 0, std::min<int64_t>(timeout_us, kSleepUsMax), Until::kWoken);
}

int32_t Port::OpenStream(Device& device, const StreamOptions& options) {
  streams_.push_back(device.OpenStream({sink_, pool_, results_}, options));
  return static_cast<int32_t>(streams_.size() - 1);
}

int32_t Port::CloseStream(int32_t number) {
  Stream* closing = stream(number);
  if (closing == nullptr) return -EINVAL;
  if (closing->in_flight() > 0 || closing->codes_lent()) return -EBUSY;
  if (cufile::Staging* slot = staging(number)) {
    const int code = slot->Deregister();
    if (code != 0) return code;
  }
  streams_[static_cast<size_t>(number)] = std::make_unique<ClosedStream>();
  return 0;
}

cufile::Staging* Port::staging(int32_t number) const {
  return dynamic_cast<cufile::Staging*>(stream(number));
}

Stream* Port::stream(int32_t number) const {
  if (number < 0 || static_cast<size_t>(number) >= streams_.size()) return nullptr;
  return streams_[static_cast<size_t>(number)].get();
}

size_t Port::StreamsInFlight() const {
  size_t jobs = 0;
  for (const auto& stream : streams_) jobs += stream->in_flight();
  return jobs;
}

net::Sockets& Port::OpenSockets() {
  if (sockets_ == nullptr) {
    sockets_ = std::make_unique<net::Sockets>();
    queue_->Watch(sockets_->epoll_fd());
  }
  return *sockets_;
}

uint32_t Port::Drain(int64_t max_ms) {
  const int64_t deadline_us = MonotonicUs() + max_ms * 1000;
  // Nothing is written to `completions_`: what comes now waits in the backlog for the next Pump.
  written_ = completions_.size();
  while (in_flight() > 0) {
    const int64_t left_us = deadline_us - MonotonicUs();
    if (queue_->Advance(1, std::clamp<int64_t>(left_us, 0, kSleepUsMax)) < 0 && left_us <= 0) break;
    Reap();
    if (left_us <= 0) break;
  }
  for (const auto& stream : streams_) stream->Drain(deadline_us);
  Reap();
  written_ = 0;
  return in_flight() + static_cast<uint32_t>(StreamsInFlight());
}

void Port::Cancel() {
  queue_->CancelAll();
  for (const auto& stream : streams_) stream->Cancel();
}

void Port::Detach() {
  sockets_.reset();
  for (const auto& stream : streams_) stream->Detach();
}

int Port::Collect(uint32_t min_complete, int64_t wait_us, Until until) {
  const int64_t deadline_us = wait_us > 0 ? MonotonicUs() + wait_us : 0;
  PollStreams();
  // What is already here is taken before any sleep: its wake may be spent.
  if (min_complete > 0 && !sink_->empty()) TakeSink();
  if (min_complete > 0 && sockets_ != nullptr && sockets_->ready()) TakeSockets();
  while (true) {
    const uint32_t missing =
        written_ < min_complete ? min_complete - static_cast<uint32_t>(written_) : 0;
    int64_t left_us = missing > 0 && wait_us > 0 ? deadline_us - MonotonicUs() : 0;
    const bool sleeps = left_us > 0 && !AwaitStreams(deadline_us, until);
    const int advanced = queue_->Advance(sleeps ? missing : 0, sleeps ? left_us : 0);
    const bool woken = Reap();
    // Resubmitted requests must reach the kernel before the caller sleeps elsewhere.
    const bool resubmitted = std::exchange(resubmitted_, false);
    if (advanced < 0 && written_ == 0) return advanced;
    const bool enough = written_ >= min_complete || left_us <= 0 || advanced < 0;
    const bool ends = until == Until::kWoken &&
                      (woken || park_word_->load(std::memory_order_acquire) != kParkedNative);
    if (!enough && !ends) continue;
    if (resubmitted) queue_->Advance(0, 0);
    return static_cast<int>(written_);
  }
}

bool Port::Reap() {
  ReapIo();
  const bool woken = queue_->TakeWoken();
  if (woken) sink_->ClearWake();
  PollStreams();
  TakeSink();
  TakeSockets();
  return woken;
}

void Port::PollStreams() {
  for (const auto& stream : streams_) stream->Poll();
}

bool Port::AwaitStreams(int64_t deadline_us, Until until) {
  int64_t end_us = Stream::kNever;
  for (const auto& stream : streams_) end_us = std::min(end_us, stream->NextEndUs());
  if (end_us == Stream::kNever) return false;
  if (end_us == Stream::kNow) return true;
  // Reads in flight are reaped in the kernel: then the processor is not kept from it.
  const int64_t until_us = in_flight() > 0 ? 0 : std::min(end_us, deadline_us);
  if (until_us - MonotonicUs() <= kSpinUsMax) {
    do {
      PollStreams();
      if (!sink_->empty()) return true;
      if (until == Until::kWoken && park_word_->load(std::memory_order_acquire) != kParkedNative)
        return true;
    } while (MonotonicUs() < until_us);
  }
  for (const auto& stream : streams_) stream->WakeAtEnds();
  // What ended in between has woken nobody, and what was begun then wakes as well.
  PollStreams();
  for (const auto& stream : streams_) stream->WakeAtEnds();
  return !sink_->empty();
}

void Port::TakeSink() {
  if (drops_) return sink_->Drop();
  taken_.clear();
  sink_->Take(taken_);
  for (const Completion& completion : taken_) Emit(completion);
}

void Port::TakeSockets() {
  if (sockets_ == nullptr || drops_) return;
  taken_.clear();
  sockets_->Poll(taken_);
  for (const Completion& completion : taken_) Emit(completion);
}

void Port::ReapIo() {
  uint64_t verified = 0;
  IoResult reaped;
  while (verified < kVerifyBytesMax && queue_->Reap({&reaped, 1}) > 0) {
    const auto [number, result] = reaped;
    Slot& slot = slots_[number];
    Submission& submission = slot.submission;
    IoRequest& request = submission.request;
    if ((result == -EAGAIN || result == -EINTR) && ++slot.attempts < kAttemptsMax) {
      queue_->Push(number, request);
      resubmitted_ = true;
      continue;
    }
    const bool verifies = submission.verify && result == static_cast<int32_t>(request.bytes);
    if (verifies) verified += request.bytes;
    const int32_t final_result = verifies ? Verify(submission) : result;
    request.file.reset();
    free_slots_.push_back(number);
    Emit({submission.tag, final_result, 0, CompletionKind::kIo});
  }
}

int32_t Port::Verify(const Submission& read) {
  const IoRequest& request = read.request;
  const uint32_t crc =
      Crc32Strided(0, request.memory, request.bytes, read.segment_bytes, read.segment_stride);
  return crc == read.crc ? static_cast<int32_t>(request.bytes) : -EBADMSG;
}

void Port::Admit(size_t entry) {
  const double* fields = &submissions_[entry * kSubmissionDoubles];
  const size_t spans = kWriteSpansMax * kSpanDoubles;
  const int32_t tag = TagOf(fields);
  if (free_slots_.empty()) return Emit({tag, -EBUSY, 0, CompletionKind::kIo});
  const uint32_t number = free_slots_.back();
  Slot& slot = slots_[number];
  slot = {};
  const int refused =
      CheckSubmission(fields, spans_.empty() ? spans_ : spans_.subspan(entry * spans, spans),
                      pool_.get(), VectorOf(number), slot.submission);
  if (refused < 0) {
    slot = {};
    return Emit({tag, refused, 0, CompletionKind::kIo});
  }
  slot.submission.tag = tag;
  queue_->Push(number, slot.submission.request);
  free_slots_.pop_back();
}

std::span<iovec> Port::VectorOf(uint32_t slot) {
  if (vectors_.empty()) return {};
  return std::span(vectors_).subspan(slot * kWriteSpansMax, kWriteSpansMax);
}

void Port::Emit(const Completion& completion) {
  if (drops_) return;
  if (written_ < completions_.size())
    completions_[written_++] = completion;
  else
    backlog_.push_back(completion);
}

void Port::EmitBacklog() {
  const size_t count = std::min(backlog_.size(), completions_.size());
  const auto end = backlog_.begin() + static_cast<std::ptrdiff_t>(count);
  std::copy(backlog_.begin(), end, completions_.begin());
  backlog_.erase(backlog_.begin(), end);
  written_ = count;
}

}  // namespace orbitkv
