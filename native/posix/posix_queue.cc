#include "posix/posix_queue.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/system_error.h"

namespace orbitkv::posix {

namespace {

// Enough to keep a drive's queue from running empty, few enough to leave the cores to the lanes.
constexpr int kThreads = 4;

int Perform(const IoRequest& request) {
  const auto offset = static_cast<off_t>(request.offset);
  const int fd = request.file->fd.get();
  const ssize_t count = request.write ? pwrite(fd, request.memory, request.bytes, offset)
                                      : pread(fd, request.memory, request.bytes, offset);
  return count < 0 ? -errno : static_cast<int>(count);
}

}  // namespace

PosixQueue::PosixQueue(const IoQueueOptions& options)
    : shared_(std::make_shared<Shared>()), watched_{options.wake_fd} {
  shared_->done_fd.Reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!shared_->done_fd.valid()) throw SystemError(errno, "Cannot create an eventfd");
}

PosixQueue::~PosixQueue() {
  const std::lock_guard lock(shared_->mutex);
  shared_->stop = true;
  shared_->work.notify_all();
}

int PosixQueue::StartThreads() {
  try {
    for (; threads_ < kThreads; ++threads_) std::thread(Work, shared_).detach();
    return 0;
  } catch (const std::system_error& error) {
    // Fewer threads are slower, none cannot work.
    return threads_ > 0 ? 0 : -error.code().value();
  }
}

void PosixQueue::Work(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  while (true) {
    shared->work.wait(lock, [&] { return shared->stop || !shared->queue.empty(); });
    if (shared->queue.empty()) return;
    Queued next = std::move(shared->queue.front());
    shared->queue.pop_front();
    lock.unlock();
    const IoResult result{next.slot, Perform(next.request)};
    next.request.file.reset();
    lock.lock();
    shared->done.push_back(result);
    if (shared->done.size() > 1) continue;
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(shared->done_fd.get(), &one, sizeof one);
  }
}

IoQueueReport PosixQueue::report() const { return {"posix", 0, false, false}; }

void PosixQueue::Watch(int fd) { watched_.push_back(fd); }

void PosixQueue::Push(uint32_t slot, const IoRequest& request) {
  pushed_.push_back({slot, request});
}

int PosixQueue::Advance(uint32_t events, int64_t wait_us) {
  if (!pushed_.empty()) {
    // The first request starts them: a port that only speaks to peers needs none.
    if (threads_ == 0) {
      const int started = StartThreads();
      if (started < 0) return started;
    }
    const std::lock_guard lock(shared_->mutex);
    std::move(pushed_.begin(), pushed_.end(), std::back_inserter(shared_->queue));
    pushed_.clear();
    shared_->work.notify_all();
  }
  if (events == 0 || wait_us <= 0) return 0;
  // One result is enough to come back: the port looks and sleeps again when it wants more.
  std::vector<pollfd> polled;
  polled.push_back({shared_->done_fd.get(), POLLIN, 0});
  for (const int fd : watched_) polled.push_back({fd, POLLIN, 0});
  const timespec timeout{wait_us / 1'000'000, wait_us % 1'000'000 * 1000};
  const int ready = ppoll(polled.data(), polled.size(), &timeout, nullptr);
  if (ready < 0) return errno == EINTR ? 0 : -errno;
  if ((polled[1].revents & POLLIN) != 0) woken_ = true;
  return 0;
}

size_t PosixQueue::Reap(std::span<IoResult> out) {
  const std::lock_guard lock(shared_->mutex);
  const size_t count = std::min(out.size(), shared_->done.size());
  const auto end = shared_->done.begin() + static_cast<std::ptrdiff_t>(count);
  std::copy(shared_->done.begin(), end, out.begin());
  shared_->done.erase(shared_->done.begin(), end);
  if (count > 0 && shared_->done.empty()) {
    uint64_t seen;
    [[maybe_unused]] const auto read = ::read(shared_->done_fd.get(), &seen, sizeof seen);
  }
  return count;
}

bool PosixQueue::TakeWoken() { return std::exchange(woken_, false); }

void PosixQueue::CancelAll() {
  const std::lock_guard lock(shared_->mutex);
  for (const Queued& queued : shared_->queue) shared_->done.push_back({queued.slot, -ECANCELED});
  if (!shared_->queue.empty()) {
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(shared_->done_fd.get(), &one, sizeof one);
  }
  shared_->queue.clear();
}

}  // namespace orbitkv::posix
