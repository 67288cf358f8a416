#include "posix/posix_queue.h"

#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/system_error.h"

namespace orbitkv::posix {

namespace {

// Enough to keep a drive's queue from running empty, few enough to leave the cores to the lanes.
constexpr size_t kThreads = 4;
/// Place of the wake descriptor among those polled; results stand before it.
constexpr size_t kWake = 1;

ssize_t Carry(const IoRequest& request) {
  const auto offset = static_cast<off_t>(request.offset);
  const int fd = request.file->fd.get();
  if (!request.vector.empty())
    return pwritev(fd, request.vector.data(), static_cast<int>(request.vector.size()), offset);
  return request.write ? pwrite(fd, request.memory, request.bytes, offset)
                       : pread(fd, request.memory, request.bytes, offset);
}

int Perform(const IoRequest& request) {
  const ssize_t count = Carry(request);
  return count < 0 ? -errno : static_cast<int>(count);
}

}  // namespace

PosixQueue::PosixQueue(const IoQueueOptions& options)
    : done_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      polled_{{done_fd_.get(), POLLIN, 0}, {options.wake_fd, POLLIN, 0}} {
  if (!done_fd_.valid()) throw SystemError(errno, "Cannot create an eventfd");
  // All that a request needs on its way: nothing allocates between its push and its result.
  pushed_.reserve(options.depth);
  queue_.reserve(options.depth);
  done_.reserve(options.depth);
}

PosixQueue::~PosixQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

int PosixQueue::StartThreads() {
  try {
    while (threads_.size() < kThreads) threads_.emplace_back([this] { Work(); });
    return 0;
  } catch (const std::system_error& error) {
    // Fewer threads are slower, none cannot work.
    return threads_.empty() ? -error.code().value() : 0;
  }
}

void PosixQueue::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Queued next = std::move(queue_.front());
    queue_.erase(queue_.begin());
    lock.unlock();
    const IoResult result{next.slot, Perform(next.request)};
    next.request.file.reset();
    lock.lock();
    done_.push_back(result);
    if (done_.size() == 1) Announce();
  }
}

void PosixQueue::Announce() {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(done_fd_.get(), &one, sizeof one);
}

IoQueueReport PosixQueue::report() const { return {"posix", 0, false, false}; }

void PosixQueue::Watch(int fd) { polled_.push_back({fd, POLLIN, 0}); }

void PosixQueue::Push(uint32_t slot, const IoRequest& request) {
  pushed_.push_back({slot, request});
}

int PosixQueue::Advance(uint32_t events, int64_t wait_us) {
  if (!pushed_.empty()) {
    // The first request starts them: a port that only speaks to peers needs none.
    if (threads_.empty()) {
      const int started = StartThreads();
      if (started < 0) return started;
    }
    const std::lock_guard lock(mutex_);
    std::move(pushed_.begin(), pushed_.end(), std::back_inserter(queue_));
    pushed_.clear();
    work_.notify_all();
  }
  if (events == 0 || wait_us <= 0) return 0;
  // One result is enough to come back: the port looks and sleeps again when it wants more.
  const timespec timeout{wait_us / 1'000'000, wait_us % 1'000'000 * 1000};
  const int ready = ppoll(polled_.data(), polled_.size(), &timeout, nullptr);
  if (ready < 0) return errno == EINTR ? 0 : -errno;
  if ((polled_[kWake].revents & POLLIN) != 0) woken_ = true;
  return 0;
}

size_t PosixQueue::Reap(std::span<IoResult> out) {
  const std::lock_guard lock(mutex_);
  const size_t count = std::min(out.size(), done_.size());
  const auto end = done_.begin() + static_cast<std::ptrdiff_t>(count);
  std::copy(done_.begin(), end, out.begin());
  done_.erase(done_.begin(), end);
  if (count > 0 && done_.empty()) {
    uint64_t seen;
    [[maybe_unused]] const auto read = ::read(done_fd_.get(), &seen, sizeof seen);
  }
  return count;
}

bool PosixQueue::TakeWoken() { return std::exchange(woken_, false); }

void PosixQueue::CancelAll() {
  const std::lock_guard lock(mutex_);
  for (const Queued& queued : queue_) done_.push_back({queued.slot, -ECANCELED});
  if (!queue_.empty()) Announce();
  queue_.clear();
}

}  // namespace orbitkv::posix
