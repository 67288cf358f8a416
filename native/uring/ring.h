#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/unique_fd.h"
#include "uring/abi.h"

namespace orbitkv::uring {

/// One mapping of ring memory.
class Mapped {
 public:
  Mapped() = default;
  /// Throws SystemError.
  Mapped(int fd, size_t bytes, uint64_t offset);
  Mapped(Mapped&& other) noexcept;
  Mapped& operator=(Mapped&& other) noexcept;
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped();

  template <class T>
  T* At(size_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(memory_) + offset);
  }

 private:
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

/// The bare io_uring of one thread: setup ladder, queues, enter. Knows nothing of requests.
class Ring {
 public:
  /// Takes the best rung that this kernel has. Throws SystemError with the errno of the last
  /// attempt.
  explicit Ring(uint32_t entries);

  int fd() const { return fd_.get(); }
  uint32_t setup_flags() const { return setup_flags_; }
  uint32_t sq_entries() const { return sq_entries_; }

  /// A zeroed entry of the submission queue, or null when it is full. It counts at once.
  Sqe* Next();
  /// Entries made and not taken by the kernel.
  uint32_t unsubmitted() const;
  /// Enters the kernel: submits up to `submit` entries and, with `get_events`, runs completion work
  /// and waits for `events` completions or `wait_us`. Returns the number submitted or -errno
  /// (-ETIME is 0).
  int Enter(uint32_t submit, uint32_t events, int64_t wait_us, bool get_events);
  /// Completions there without entering.
  uint32_t ready() const;
  /// Reads one completion; false when there is none.
  bool Take(Cqe* out);
  /// io_uring_register; 0 or more, or -errno.
  int Register(uint32_t operation, const void* argument, uint32_t count);

 private:
  UniqueFd fd_;
  uint32_t setup_flags_ = 0;
  uint32_t sq_entries_ = 0;
  uint32_t cq_mask_ = 0;
  uint32_t sq_tail_ = 0;
  Mapped sq_ring_;
  Mapped cq_ring_;
  Mapped sqes_;
  std::atomic<uint32_t>* sq_head_word_ = nullptr;
  std::atomic<uint32_t>* sq_tail_word_ = nullptr;
  std::atomic<uint32_t>* cq_head_word_ = nullptr;
  std::atomic<uint32_t>* cq_tail_word_ = nullptr;
  Sqe* sqe_ = nullptr;
  Cqe* cqe_ = nullptr;
};

/// One setup call: the descriptor or -errno. `parameters.flags` is what is asked for.
int Setup(uint32_t entries, SetupParameters& parameters);

}  // namespace orbitkv::uring
