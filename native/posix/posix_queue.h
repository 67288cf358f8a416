#pragma once

#include <poll.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "port/io_queue.h"

namespace orbitkv::posix {

/// IoQueue over a few threads with pread and pwrite, for hosts that forbid io_uring. Chosen by name
/// only.
class PosixQueue final : public IoQueue {
 public:
  /// Throws SystemError.
  explicit PosixQueue(const IoQueueOptions& options);
  /// Waits for the requests that its threads are in.
  ~PosixQueue() override;

  IoQueueReport report() const override;
  void Watch(int fd) override;
  void Push(uint32_t slot, const IoRequest& request) override;
  int Advance(uint32_t events, int64_t wait_us) override;
  size_t Reap(std::span<IoResult> out) override;
  bool TakeWoken() override;
  void CancelAll() override;

 private:
  struct Queued {
    uint32_t slot;
    IoRequest request;
  };
  /// 0 or -errno.
  int StartThreads();
  void Work();
  /// Makes `done_fd_` readable. Requires mutex_.
  void Announce();

  std::vector<Queued> pushed_;
  bool woken_ = false;

  std::mutex mutex_;
  std::condition_variable work_;
  /// Short: at most the depth. What is taken from its front moves the rest up.
  std::vector<Queued> queue_;
  std::vector<IoResult> done_;
  bool stop_ = false;
  UniqueFd done_fd_;
  /// Results, the wake descriptor, and what else is watched.
  std::vector<pollfd> polled_;
  /// Last: they use everything above.
  std::vector<std::thread> threads_;
};

}  // namespace orbitkv::posix
