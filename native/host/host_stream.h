#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "device/jobs.h"
#include "device/stream.h"

namespace orbitkv {

class HostEvent : public Event {
 public:
  bool Passed() const override;
  void Synchronize() const override;

 private:
  friend class HostStream;
  std::shared_future<void> passed_;  // of the last recording; empty before the first
};

/// A stream of the host device: jobs run one after the other on a thread of its own. A small job
/// that finds the stream idle runs inside the call instead, since waking the thread costs more than
/// the job.
class HostStream : public Stream {
 public:
  /// Bytes up to which a job may run inside the call: some 20 us of copying, less than waking the
  /// thread and being woken by it.
  static constexpr uint64_t kInlineBytesMax = 256 << 10;
  /// The same for items to be coded, which takes some ten times as long.
  static constexpr uint64_t kInlineCodedBytesMax = 32 << 10;

  /// Throws SystemError.
  explicit HostStream(StreamContext context);
  /// Runs what is queued, then ends the thread.
  ~HostStream() override;

  int Copy(int32_t tag, CopyDirection direction, std::span<const double> descriptors) override;
  int Checksum(int32_t tag, std::span<const double> descriptors, size_t result_base) override;
  /// An item to be coded by ANS, which the processor has not, is stored as it is or not at all; to
  /// decode one is refused with -EOPNOTSUPP.
  int Encode(int32_t tag, std::span<const double> descriptors, size_t result_base) override;
  int Decode(int32_t tag, std::span<const double> descriptors, size_t result_base) override;
  /// In its turn, on the stream's thread: copies `gather` (COPY descriptors, may be empty) out of
  /// pages, then calls `io`, which may block, then checksums `checks` (CHECKSUM descriptors, may be
  /// empty) as Checksum does. Completes once with what `io` returned. Returns 0 or -errno.
  int Transfer(int32_t tag, std::span<const double> gather, std::span<const double> checks,
               size_t result_base, std::function<int32_t()> io);
  int Record(Event& event) override;
  int Wait(const Event& event) override;
  void Cancel() override;
  void Detach() override;
  size_t in_flight() const override { return in_flight_.load(std::memory_order_acquire); }
  bool Drain(int64_t deadline_us) override;

 private:
  struct CopyTask {
    int32_t tag;
    CopyDirection direction;
    CopyJob job;
  };
  struct ChecksumTask {
    int32_t tag;
    ChecksumJob job;
    size_t result_base;
  };
  struct CodeTask {
    int32_t tag;
    CodeDirection direction;
    CodeJob job;
    size_t result_base;
  };
  struct TransferTask {
    int32_t tag;
    CopyJob gather;
    std::function<int32_t()> io;
    ChecksumTask checks;
  };
  struct RecordTask {
    std::promise<void> passed;
  };
  struct WaitTask {
    std::shared_future<void> passed;
  };
  using Task = std::variant<CopyTask, ChecksumTask, CodeTask, TransferTask, RecordTask, WaitTask>;

  bool idle() const { return in_flight() == 0; }
  /// Copies `descriptors` to memory that only this thread writes.
  std::span<const double> Snapshot(std::span<const double> descriptors);
  /// Whether the port has `wanted` results from `base` on.
  bool HasResults(size_t base, size_t wanted) const;
  int Code(int32_t tag, CodeDirection direction, std::span<const double> descriptors,
           size_t result_base);
  template <class T>
  int Accept(T task, uint64_t inline_bytes_max = kInlineBytesMax);
  void Enqueue(Task task);
  void Loop();
  /// `canceled` tasks only report.
  void Perform(Task& task, bool canceled);
  void ChecksumAll(const ChecksumTask& task);
  void CodeAll(const CodeTask& task);
  /// Writes results unless the port has detached them.
  void Report(size_t first, std::span<const uint32_t> words);

  StreamContext context_;
  std::vector<double> snapshot_;
  std::atomic<size_t> in_flight_{0};
  std::mutex results_mutex_;  // context_.results, once the thread runs
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable drained_;
  std::deque<Task> queue_;
  size_t canceled_ = 0;  // tasks at the front of queue_ that were canceled
  bool closing_ = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace orbitkv
