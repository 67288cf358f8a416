#include "port/port.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/system_error.h"
#include "base/whole_number.h"
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
// Largest transfer of one read or write in Linux.
constexpr uint64_t kTransferBytesMax = 0x7ffff000;
// Bytes after whose verification the rest waits for the next call: what has been verified goes on
// and is copied elsewhere while this thread verifies what follows.
constexpr uint64_t kVerifyBytesMax = 1 << 20;
// Direct I/O on a filesystem that does not say: the least that any block device takes.
constexpr uint32_t kAlignDefault = 512;

constexpr uint32_t kRead = 0;
constexpr uint32_t kWrite = 1;
constexpr uint32_t kFlagVerify = 1;

/// Fields of one submission, as in src/binding/submissions.ts.
enum Field : size_t {
  kOpAndFlags,
  kTag,
  kFile,
  kFileOffset,
  kPoolOffset,
  kBytes,
  kSegmentBytes,
  kSegmentStride,
  kCrc32,
};

/// A whole number below `end`.
bool ToWhole(double number, uint64_t end, uint64_t* out) {
  return WholeNumber(number, out) && *out < end;
}

std::unique_ptr<IoQueue> MakeQueue(IoKind io, const IoQueueOptions& options) {
  if (io == IoKind::kUring) return std::make_unique<uring::UringQueue>(options);
  return std::make_unique<posix::PosixQueue>(options);
}

/// Whether direct I/O takes this request: address, offset and length are multiples of what the file
/// wants.
bool IsAligned(const IoRequest& request) {
  if (!request.file->direct) return true;
  const uint32_t offset_align =
      request.file->direct_offset_align ? request.file->direct_offset_align : kAlignDefault;
  const uint32_t memory_align =
      request.file->direct_memory_align ? request.file->direct_memory_align : kAlignDefault;
  return request.offset % offset_align == 0 && request.bytes % offset_align == 0 &&
         reinterpret_cast<uintptr_t>(request.memory) % memory_align == 0;
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
      completions_(options.completions),
      park_word_(options.park_word),
      pool_(std::move(options.pool)),
      results_(options.results),
      sink_(std::make_shared<CompletionSink>()),
      id_(sink_),
      slots_(depth_) {
  free_slots_.reserve(depth_);
  for (uint32_t slot = depth_; slot-- > 0;) free_slots_.push_back(slot);
  queue_ = MakeQueue(options.io, {depth_, sink_->event_fd(), pool_, options.enlist});
}

int Port::Pump(int32_t count, int32_t min_complete, int32_t timeout_us) {
  if (count < 0 || static_cast<uint32_t>(count) > depth_ || min_complete < 0 || timeout_us < 0)
    return -EINVAL;
  written_ = 0;
  EmitBacklog();
  for (int32_t i = 0; i < count; ++i)
    Admit(&submissions_[static_cast<size_t>(i) * kSubmissionDoubles]);
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
    if ((result == -EAGAIN || result == -EINTR) && ++slot.attempts < kAttemptsMax) {
      queue_->Push(number, slot.request);
      resubmitted_ = true;
      continue;
    }
    const bool whole = result == static_cast<int32_t>(slot.request.bytes);
    if (whole && slot.verify) verified += slot.request.bytes;
    const int32_t final_result = whole && slot.verify ? Verify(slot) : result;
    slot.request.file.reset();
    free_slots_.push_back(number);
    Emit({slot.tag, final_result, 0, CompletionKind::kIo});
  }
}

int32_t Port::Verify(const Slot& slot) {
  const uint32_t crc = Crc32Strided(0, slot.request.memory, slot.request.bytes, slot.segment_bytes,
                                    slot.segment_stride);
  return crc == slot.crc ? static_cast<int32_t>(slot.request.bytes) : -EBADMSG;
}

void Port::Admit(const double* descriptor) {
  // Copied once, then checked, then the copy is used: the memory is shared.
  std::array<double, kSubmissionDoubles> copy;
  std::copy_n(descriptor, kSubmissionDoubles, copy.begin());
  const double tag = copy[kTag];
  Slot checked{};
  checked.tag = tag >= -2147483648.0 && tag <= 2147483647.0 ? static_cast<int32_t>(tag) : -1;
  const int refused = free_slots_.empty() ? -EBUSY : Check(copy, checked);
  if (refused < 0) {
    Emit({checked.tag, refused, 0, CompletionKind::kIo});
    return;
  }
  const uint32_t number = free_slots_.back();
  slots_[number] = std::move(checked);
  queue_->Push(number, slots_[number].request);
  free_slots_.pop_back();
}

int Port::Check(const std::array<double, kSubmissionDoubles>& descriptor, Slot& slot) const {
  uint64_t op;
  uint64_t file;
  uint64_t offset;
  uint64_t pool_offset;
  uint64_t bytes;
  if (!ToWhole(descriptor[kOpAndFlags], 65536, &op) ||
      !ToWhole(descriptor[kFile], INT32_MAX, &file) ||
      !ToWhole(descriptor[kFileOffset], INT64_MAX, &offset) ||
      !ToWhole(descriptor[kPoolOffset], INT64_MAX, &pool_offset) ||
      !ToWhole(descriptor[kBytes], kTransferBytesMax + 1, &bytes))
    return -EINVAL;
  const uint64_t kind = op % 256;
  const uint64_t flags = op / 256;
  if (kind > kWrite || flags > kFlagVerify || (kind == kWrite && flags != 0) || bytes == 0)
    return -EINVAL;
  if (pool_ == nullptr || !pool_->Contains(pool_offset, bytes)) return -EINVAL;

  IoRequest& request = slot.request;
  request.file_number = static_cast<int32_t>(file);
  request.file = Files().Find(request.file_number);
  if (request.file == nullptr) return -EBADF;
  request.write = kind == kWrite;
  request.offset = offset;
  request.memory = pool_->base() + pool_offset;
  request.bytes = static_cast<uint32_t>(bytes);
  // A write may not grow the file; a read past its end is short, and the caller sees that.
  if (request.write && offset + bytes > request.file->bytes) return -EINVAL;
  if (!IsAligned(request)) return -EINVAL;

  slot.verify = flags == kFlagVerify;
  if (!slot.verify) return 0;
  uint64_t segment;
  uint64_t stride;
  uint64_t crc;
  if (!ToWhole(descriptor[kSegmentBytes], bytes + 1, &segment) ||
      !ToWhole(descriptor[kSegmentStride], bytes + 1, &stride) ||
      !ToWhole(descriptor[kCrc32], uint64_t{1} << 32, &crc))
    return -EINVAL;
  if (segment == 0 || segment > stride || bytes % stride != 0) return -EINVAL;
  slot.segment_bytes = static_cast<uint32_t>(segment);
  slot.segment_stride = static_cast<uint32_t>(stride);
  slot.crc = static_cast<uint32_t>(crc);
  return 0;
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
