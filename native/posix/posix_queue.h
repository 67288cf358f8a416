#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "port/io_queue.h"

namespace orbitkv::posix {

/// IoQueue over a few threads with pread and pwrite, for hosts that forbid io_uring. Chosen by name
/// only.
class PosixQueue final : public IoQueue {
 public:
  /// Throws SystemError.
  explicit PosixQueue(const IoQueueOptions& options);
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
  /// Shared with the threads, which may outlive the queue when a device never answers.
  struct Shared {
    std::mutex mutex;
    std::condition_variable work;
    std::deque<Queued> queue;
    std::vector<IoResult> done;
    UniqueFd done_fd;
    bool stop = false;
  };

  static void Work(const std::shared_ptr<Shared>& shared);

  /// 0 or -errno.
  int StartThreads();

  std::shared_ptr<Shared> shared_;
  int threads_ = 0;
  std::vector<Queued> pushed_;
  std::vector<int> watched_;
  bool woken_ = false;
};

}  // namespace orbitkv::posix
