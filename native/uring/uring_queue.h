#pragma once

#include <memory>
#include <vector>

#include "port/io_queue.h"
#include "uring/ring.h"

namespace orbitkv::uring {

/// IoQueue over one io_uring.
class UringQueue final : public IoQueue {
 public:
  /// Throws SystemError.
  explicit UringQueue(const IoQueueOptions& options);

  IoQueueReport report() const override;
  void Watch(int fd) override;
  void Push(uint32_t slot, const IoRequest& request) override;
  int Advance(uint32_t events, int64_t wait_us) override;
  size_t Reap(std::span<IoResult> out) override;
  bool TakeWoken() override;
  void CancelAll() override;

 private:
  /// A descriptor that the ring polls for its owner.
  struct Watched {
    int fd = -1;
    bool armed = false;
  };
  struct EnlistedFile {
    int32_t number = 0;
    std::weak_ptr<ShardFile> file;
  };

  void EnlistPool();
  int FileIndex(const IoRequest& request);
  /// Names the memory of a request in its entry: a vector, a registered buffer or an address.
  void SetMemory(Sqe& sqe, const IoRequest& request) const;
  void ForgetClosedFiles();
  void Arm();
  int Submit(uint32_t events, int64_t wait_us, bool get_events);
  void NotePoll(size_t watched, const Cqe& cqe);

  Ring ring_;
  std::shared_ptr<Pool> pool_;
  /// [0] is the wake descriptor.
  std::vector<Watched> watched_;
  bool multishot_ = true;
  bool woken_ = false;
  bool buffers_enlisted_ = false;
  bool files_enlisted_ = false;
  std::vector<EnlistedFile> files_;
  uint32_t files_epoch_ = 0;
  uint32_t in_flight_ = 0;
};

}  // namespace orbitkv::uring
