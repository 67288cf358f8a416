#include "uring/ring.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/system_error.h"

namespace orbitkv::uring {

namespace {

// Rungs from the best to plain. Task work that is deferred runs only when the owner asks;
// cooperative needs the flag, or a busy owner never learns that work waits.
constexpr uint32_t kLadder[] = {
    kSetupSubmitAll | kSetupSingleIssuer | kSetupDeferTaskrun,
    kSetupSubmitAll | kSetupCoopTaskrun | kSetupTaskrunFlag,
    0,
};

uint32_t NextPowerOfTwo(uint32_t value) {
  uint32_t power = 1;
  while (power < value) power *= 2;
  return power;
}

}  // namespace

int Setup(uint32_t entries, SetupParameters& parameters) {
  const long fd = syscall(kSetupCall, entries, &parameters);
  return fd < 0 ? -errno : static_cast<int>(fd);
}

Mapped::Mapped(int fd, size_t bytes, uint64_t offset) : bytes_(bytes) {
  memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
                 static_cast<off_t>(offset));
  if (memory_ == MAP_FAILED) {
    memory_ = nullptr;
    throw SystemError(errno, "Cannot map the memory of an io_uring");
  }
  // A child that was forked must not share the queues.
  madvise(memory_, bytes, MADV_DONTFORK);
}

Mapped::Mapped(Mapped&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapped& Mapped::operator=(Mapped&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapped::~Mapped() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

Ring::Ring(uint32_t entries) {
  SetupParameters parameters{};
  int fd = -ENOSYS;
  for (const uint32_t rung : kLadder) {
    parameters = {};
    parameters.flags = rung | kSetupClamp | kSetupCqSize;
    parameters.cq_entries = 2 * NextPowerOfTwo(entries);
    fd = Setup(entries, parameters);
    if (fd != -EINVAL) break;
  }
  if (fd < 0) throw SystemError(-fd, "Cannot set up an io_uring");
  fd_.Reset(fd);
  // Both came by 5.11: no completion is dropped, and a wait has a timeout of its own.
  if ((parameters.features & kFeatureNoDrop) == 0 || (parameters.features & kFeatureExtArg) == 0)
    throw SystemError(ENOSYS, "Cannot use the io_uring of a kernel before 5.11");

  setup_flags_ = parameters.flags;
  sq_entries_ = parameters.sq_entries;
  size_t sq_bytes = parameters.sq.array + parameters.sq_entries * sizeof(uint32_t);
  const size_t cq_bytes = parameters.cq.cqes + parameters.cq_entries * sizeof(Cqe);
  sq_bytes = std::max(sq_bytes, cq_bytes);
  sq_ring_ = Mapped(fd, sq_bytes, kSqRingOffset);
  cq_ring_ = Mapped(fd, cq_bytes, kCqRingOffset);
  sqes_ = Mapped(fd, parameters.sq_entries * sizeof(Sqe), kSqesOffset);

  sq_head_word_ = sq_ring_.At<std::atomic<uint32_t>>(parameters.sq.head);
  sq_tail_word_ = sq_ring_.At<std::atomic<uint32_t>>(parameters.sq.tail);
  cq_head_word_ = cq_ring_.At<std::atomic<uint32_t>>(parameters.cq.head);
  cq_tail_word_ = cq_ring_.At<std::atomic<uint32_t>>(parameters.cq.tail);
  cq_mask_ = *cq_ring_.At<uint32_t>(parameters.cq.ring_mask);
  sqe_ = sqes_.At<Sqe>(0);
  cqe_ = cq_ring_.At<Cqe>(parameters.cq.cqes);
  // Entry i always sits in place i, so the indirection is written once.
  auto* array = sq_ring_.At<uint32_t>(parameters.sq.array);
  for (uint32_t i = 0; i < parameters.sq_entries; ++i) array[i] = i;
}

Sqe* Ring::Next() {
  if (unsubmitted() == sq_entries_) return nullptr;
  Sqe* sqe = &sqe_[sq_tail_ & (sq_entries_ - 1)];
  std::memset(sqe, 0, sizeof *sqe);
  ++sq_tail_;
  return sqe;
}

uint32_t Ring::unsubmitted() const {
  return sq_tail_ - sq_head_word_->load(std::memory_order_acquire);
}

int Ring::Enter(uint32_t submit, uint32_t events, int64_t wait_us, bool get_events) {
  sq_tail_word_->store(sq_tail_, std::memory_order_release);
  const KernelTimespec timeout{wait_us / 1'000'000, wait_us % 1'000'000 * 1000};
  GetEventsArgument argument{};
  argument.timeout = reinterpret_cast<uint64_t>(&timeout);
  const uint32_t flags = get_events ? kEnterGetEvents | kEnterExtArg : 0;
  const long result = syscall(kEnterCall, fd_.get(), submit, events, flags,
                              get_events ? &argument : nullptr, get_events ? sizeof argument : 0);
  if (result >= 0) return static_cast<int>(result);
  return errno == ETIME ? 0 : -errno;
}

uint32_t Ring::ready() const {
  return cq_tail_word_->load(std::memory_order_acquire) -
         cq_head_word_->load(std::memory_order_relaxed);
}

bool Ring::Take(Cqe* out) {
  const uint32_t head = cq_head_word_->load(std::memory_order_relaxed);
  if (head == cq_tail_word_->load(std::memory_order_acquire)) return false;
  *out = cqe_[head & cq_mask_];
  cq_head_word_->store(head + 1, std::memory_order_release);
  return true;
}

int Ring::Register(uint32_t operation, const void* argument, uint32_t count) {
  const long result = syscall(kRegisterCall, fd_.get(), operation, argument, count);
  return result < 0 ? -errno : static_cast<int>(result);
}

}  // namespace orbitkv::uring
