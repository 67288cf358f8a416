#include "uring/uring_queue.h"

#include <poll.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace orbitkv::uring {

namespace {

// 32 entries at once cost 16 % of random-read rate at depth 32, one at a time costs CPU.
constexpr uint32_t kSubmitChunk = 4;
// Up to here it makes no difference.
constexpr uint32_t kSubmitWhole = 16;
// A burst on an idle ring, as a lone restore is, goes in one enter: the disk has nothing else to
// do, and each enter rings its doorbell (34 reads of 4 KiB: 114 us at once, 200 us in chunks).
constexpr uint32_t kBurstWhole = 64;
// Refusals to submit (no memory, completions backed up) in a row before the caller hears of it.
constexpr int kSubmitAttemptsMax = 8;
// The kernel takes at most 1 GiB a registered buffer.
constexpr size_t kBufferBytesMax = size_t{1} << 30;
constexpr size_t kFilesEnlistedMax = 64;
// Room in the submission queue beyond requests: polls and one cancel.
constexpr uint32_t kExtraEntries = 4;

constexpr uint64_t kPollBase = uint64_t{1} << 32;
constexpr uint64_t kCancelUserData = uint64_t{1} << 33;

}  // namespace

UringQueue::UringQueue(const IoQueueOptions& options)
    : ring_(options.depth + kExtraEntries),
      pool_(options.pool),
      watched_{{options.wake_fd, false}} {
  if (!options.enlist) return;
  if (pool_ != nullptr) EnlistPool();
  const std::vector<int> none(kFilesEnlistedMax, -1);
  files_enlisted_ = ring_.Register(kRegisterFiles, none.data(), kFilesEnlistedMax) >= 0;
  if (files_enlisted_) files_.resize(kFilesEnlistedMax);
  files_epoch_ = ClosedFilesEpoch().load();
}

void UringQueue::EnlistPool() {
  std::vector<iovec> slices;
  for (size_t offset = 0; offset < pool_->bytes(); offset += kBufferBytesMax)
    slices.push_back({pool_->base() + offset, std::min(kBufferBytesMax, pool_->bytes() - offset)});
  // Refused above the memlock limit of an ordinary user: plain reads and writes do the same for
  // more CPU.
  buffers_enlisted_ =
      ring_.Register(kRegisterBuffers, slices.data(), static_cast<uint32_t>(slices.size())) >= 0;
}

IoQueueReport UringQueue::report() const {
  return {"uring", ring_.setup_flags(), buffers_enlisted_, files_enlisted_};
}

void UringQueue::Watch(int fd) { watched_.push_back({fd, false}); }

int UringQueue::FileIndex(const IoRequest& request) {
  if (!files_enlisted_) return -1;
  size_t free = kFilesEnlistedMax;
  for (size_t i = 0; i < kFilesEnlistedMax; ++i) {
    if (files_[i].number == request.file_number) return static_cast<int>(i);
    if (files_[i].number == 0 && free == kFilesEnlistedMax) free = i;
  }
  if (free == kFilesEnlistedMax) return -1;
  const int fd = request.file->fd.get();
  const FilesUpdate update{static_cast<uint32_t>(free), 0, reinterpret_cast<uint64_t>(&fd)};
  if (ring_.Register(kRegisterFilesUpdate, &update, 1) < 0) return -1;
  files_[free] = {request.file_number, request.file};
  return static_cast<int>(free);
}

void UringQueue::ForgetClosedFiles() {
  const uint32_t epoch = ClosedFilesEpoch().load(std::memory_order_acquire);
  if (!files_enlisted_ || epoch == files_epoch_) return;
  files_epoch_ = epoch;
  for (size_t i = 0; i < kFilesEnlistedMax; ++i) {
    if (files_[i].number == 0) continue;
    const auto file = files_[i].file.lock();
    if (file != nullptr && !file->closed.load()) continue;
    const int none = -1;
    const FilesUpdate update{static_cast<uint32_t>(i), 0, reinterpret_cast<uint64_t>(&none)};
    // The kernel keeps the file for requests in flight.
    if (ring_.Register(kRegisterFilesUpdate, &update, 1) >= 0) files_[i] = {};
  }
}

void UringQueue::SetMemory(Sqe& sqe, const IoRequest& request) const {
  if (!request.vector.empty()) {
    // Registered buffers are not for vectors before 6.15.
    sqe.opcode = kOpWritev;
    sqe.address = reinterpret_cast<uint64_t>(request.vector.data());
    sqe.length = static_cast<uint32_t>(request.vector.size());
    return;
  }
  const auto first = static_cast<size_t>(request.memory - (pool_ ? pool_->base() : request.memory));
  const size_t slice = first / kBufferBytesMax;
  if (buffers_enlisted_ && slice == (first + request.bytes - 1) / kBufferBytesMax) {
    sqe.opcode = request.write ? kOpWriteFixed : kOpReadFixed;
    sqe.buffer_index = static_cast<uint16_t>(slice);
  } else {
    sqe.opcode = request.write ? kOpWrite : kOpRead;
  }
  sqe.address = reinterpret_cast<uint64_t>(request.memory);
  sqe.length = request.bytes;
}

void UringQueue::Push(uint32_t slot, const IoRequest& request) {
  Sqe* sqe = ring_.Next();  // never null: at most depth requests and kExtraEntries others are there
  SetMemory(*sqe, request);
  const int index = FileIndex(request);
  sqe->fd = index >= 0 ? index : request.file->fd.get();
  if (index >= 0) sqe->flags = kSqeFixedFile;
  sqe->offset = request.offset;
  sqe->user_data = slot;
  ++in_flight_;
}

void UringQueue::Arm() {
  for (size_t i = 0; i < watched_.size(); ++i) {
    if (watched_[i].armed) continue;
    Sqe* sqe = ring_.Next();
    if (sqe == nullptr) return;
    sqe->opcode = kOpPollAdd;
    sqe->fd = watched_[i].fd;
    sqe->op_flags = POLLIN;
    sqe->length = multishot_ ? kPollAddMulti : 0;
    sqe->user_data = kPollBase + i;
    watched_[i].armed = true;
  }
}

int UringQueue::Advance(uint32_t events, int64_t wait_us) {
  ForgetClosedFiles();
  const bool sleeps = wait_us > 0 && events > 0;
  if (sleeps || watched_.size() > 1) Arm();
  // Completion work that is deferred to us runs only inside an enter that asks for events.
  const bool get_events = sleeps || in_flight_ > 0 || watched_.size() > 1;
  return Submit(sleeps ? events : 0, sleeps ? wait_us : 0, get_events);
}

int UringQueue::Submit(uint32_t events, int64_t wait_us, bool get_events) {
  int refused = 0;
  uint32_t pending = ring_.unsubmitted();
  const uint32_t whole = in_flight_ <= pending ? kBurstWhole : kSubmitWhole;
  const uint32_t chunk = pending <= whole ? whole : kSubmitChunk;
  while (pending > chunk) {
    const int submitted = ring_.Enter(chunk, 0, 0, false);
    // Refused: run completion work, which frees what was missing.
    if (submitted < 0) ring_.Enter(0, 0, 0, true);
    refused = submitted > 0 ? 0 : refused + 1;
    if (refused == kSubmitAttemptsMax) return submitted < 0 ? submitted : -EAGAIN;
    pending = ring_.unsubmitted();
  }
  if (pending == 0 && !get_events) return 0;
  while (true) {
    const int submitted = ring_.Enter(pending, events, wait_us, get_events);
    pending = ring_.unsubmitted();
    if (pending == 0)
      return submitted == -EINTR || submitted >= 0 ? 0 : submitted == -EBUSY ? 0 : submitted;
    if (submitted < 0) ring_.Enter(0, 0, 0, true);
    if (++refused == kSubmitAttemptsMax) return submitted < 0 ? submitted : -EAGAIN;
  }
}

void UringQueue::NotePoll(size_t watched, const Cqe& cqe) {
  Watched& entry = watched_[watched];
  if ((cqe.flags & kCqeMore) == 0) entry.armed = false;
  // Kernels before 5.13 poll once an entry.
  if (cqe.result == -EINVAL && multishot_)
    multishot_ = false;
  else if (watched == 0 && cqe.result > 0)
    woken_ = true;
}

size_t UringQueue::Reap(std::span<IoResult> out) {
  size_t count = 0;
  Cqe cqe;
  while (count < out.size() && ring_.Take(&cqe)) {
    if (cqe.user_data < kPollBase) {
      out[count++] = {static_cast<uint32_t>(cqe.user_data), cqe.result};
      --in_flight_;
    } else if (cqe.user_data < kCancelUserData) {
      NotePoll(static_cast<size_t>(cqe.user_data - kPollBase), cqe);
    }
  }
  return count;
}

bool UringQueue::TakeWoken() { return std::exchange(woken_, false); }

void UringQueue::CancelAll() {
  Sqe* sqe = ring_.Next();
  if (sqe == nullptr) return;
  sqe->opcode = kOpAsyncCancel;
  sqe->op_flags = kCancelAll | kCancelAny;
  sqe->user_data = kCancelUserData;
}

}  // namespace orbitkv::uring
