#include "host/host_stream.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "base/system_error.h"
#include "codec/crc32.h"
#include "codec/item_coding.h"
#include "host/streaming_copy.h"

namespace orbitkv {
namespace {

/// Bytes of a job from which copies into pages go past the caches: measured 1.4 to 1.9 times as
/// fast as memcpy over memory that is in no cache. Copies out of pages stay in the caches, because
/// their checksum reads them next.
constexpr uint64_t kStreamingBytesMin = 256 << 10;

void CopyIn(const CopyStep& step, bool streaming) {
  for (const TemplateItem& item : step.items) {
    std::byte* to = item.Page(step.page);
    const std::byte* from = step.granule + item.granule_offset_bytes;
    streaming ? StreamingCopy(to, from, item.bytes) : (void)std::memcpy(to, from, item.bytes);
  }
}

void CopyOut(const CopyStep& step) {
  for (const TemplateItem& item : step.items) {
    std::byte* to = step.granule + item.granule_offset_bytes;
    std::memcpy(to, item.Page(step.page), item.bytes);
    std::memset(to + item.bytes, 0, item.padded_bytes - item.bytes);
  }
}

void CopyAll(const CopyJob& job, CopyDirection direction) {
  if (direction == CopyDirection::kPagesToPool) {
    for (const CopyStep& step : job.steps) CopyOut(step);
    return;
  }
  const bool streaming = job.bytes >= kStreamingBytesMin;
  for (const CopyStep& step : job.steps) CopyIn(step, streaming);
  if (streaming) StreamingFence();
}

/// Signals belong to the threads of Node: a thread starts with the mask of its maker.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

template <class... Bodies>
struct Overloaded : Bodies... {
  using Bodies::operator()...;
};

}  // namespace

bool HostEvent::Passed() const {
  return !passed_.valid() || passed_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

void HostEvent::Synchronize() const {
  if (passed_.valid()) passed_.wait();
}

HostStream::HostStream(StreamContext context) : context_(std::move(context)) {
  const AllSignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { Loop(); });
  } catch (const std::system_error& error) {
    throw SystemError(error.code().value(), "Cannot start the thread of a host stream");
  }
  pthread_setname_np(thread_.native_handle(), "orbitkv-stream");
}

HostStream::~HostStream() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  work_.notify_one();
  thread_.join();
}

std::span<const double> HostStream::Snapshot(std::span<const double> descriptors) {
  snapshot_.resize(descriptors.size());
  // An empty list may have no address, which memcpy may not be given.
  if (!descriptors.empty())
    std::memcpy(snapshot_.data(), descriptors.data(), descriptors.size_bytes());
  // The compiler may not read the shared memory a second time in place of the copy.
  std::atomic_signal_fence(std::memory_order_acq_rel);
  return snapshot_;
}

int HostStream::Copy(int32_t tag, CopyDirection direction,
                     std::span<const double> descriptors) try {
  CopyTask task{tag, direction, {}};
  const int decoded = DecodeCopies(Snapshot(descriptors), context_.pool, kHostDevice, &task.job);
  return decoded == 0 ? Accept(std::move(task)) : decoded;
} catch (const std::bad_alloc&) {
  return -ENOMEM;
}

int HostStream::Checksum(int32_t tag, std::span<const double> descriptors, size_t result_base) try {
  ChecksumTask task{tag, {}, result_base};
  const int decoded = DecodeChecksums(Snapshot(descriptors), context_.pool, &task.job);
  if (decoded != 0) return decoded;
  if (!HasResults(result_base, task.job.steps.size())) return -EINVAL;
  return Accept(std::move(task));
} catch (const std::bad_alloc&) {
  return -ENOMEM;
}

bool HostStream::HasResults(size_t base, size_t wanted) const {
  const size_t results = context_.results.size();
  return base <= results && wanted <= results - base;
}

int HostStream::Encode(int32_t tag, std::span<const double> descriptors, size_t result_base) {
  return Code(tag, CodeDirection::kEncode, descriptors, result_base);
}

int HostStream::Decode(int32_t tag, std::span<const double> descriptors, size_t result_base) {
  return Code(tag, CodeDirection::kDecode, descriptors, result_base);
}

int HostStream::Code(int32_t tag, CodeDirection direction, std::span<const double> descriptors,
                     size_t result_base) try {
  CodeTask task{tag, direction, {}, result_base};
  const int decoded =
      DecodeCodes(Snapshot(descriptors), direction, context_.pool, kHostDevice, &task.job);
  if (decoded != 0) return decoded;
  const auto& steps = task.job.steps;
  const bool encode = direction == CodeDirection::kEncode;
  if (!HasResults(result_base, (encode ? 2 : 1) * steps.size())) return -EINVAL;
  const auto has_coding = [](const CodeStep& step) { return step.item->coding.on_processor(); };
  if (!encode && !std::all_of(steps.begin(), steps.end(), has_coding)) return -EOPNOTSUPP;
  return Accept(std::move(task), kInlineCodedBytesMax);
} catch (const std::bad_alloc&) {
  return -ENOMEM;
}

int HostStream::Transfer(int32_t tag, std::span<const double> gather,
                         std::span<const double> checks, size_t result_base,
                         std::function<int32_t()> io) try {
  TransferTask task{tag, {}, std::move(io), {tag, {}, result_base}};
  if (!gather.empty()) {
    const int decoded = DecodeCopies(Snapshot(gather), context_.pool, kHostDevice, &task.gather);
    if (decoded != 0) return decoded;
  }
  if (!checks.empty()) {
    const int decoded = DecodeChecksums(Snapshot(checks), context_.pool, &task.checks.job);
    if (decoded != 0) return decoded;
  }
  if (!HasResults(result_base, task.checks.job.steps.size())) return -EINVAL;
  if (in_flight() >= kJobsMax) return -EAGAIN;
  context_.sink->Expect();
  Enqueue(std::move(task));
  return 0;
} catch (const std::bad_alloc&) {
  return -ENOMEM;
}

/// Only the port's thread accepts, so a stream that it finds idle stays idle until it says
/// otherwise.
template <class T>
int HostStream::Accept(T task, uint64_t inline_bytes_max) {
  if (in_flight() >= kJobsMax) return -EAGAIN;
  context_.sink->Expect();
  if (!idle() || task.job.bytes > inline_bytes_max) {
    Enqueue(std::move(task));
    return 0;
  }
  if constexpr (std::is_same_v<T, CopyTask>)
    CopyAll(task.job, task.direction);
  else if constexpr (std::is_same_v<T, CodeTask>)
    CodeAll(task);
  else
    ChecksumAll(task);
  context_.sink->PostLocal({task.tag, 0, 0, CompletionKind::kStream});
  return 0;
}

int HostStream::Record(Event& event) try {
  RecordTask task;
  static_cast<HostEvent&>(event).passed_ = task.passed.get_future().share();
  if (idle())
    task.passed.set_value();
  else
    Enqueue(std::move(task));
  return 0;
} catch (const std::bad_alloc&) {
  return -ENOMEM;
}

int HostStream::Wait(const Event& event) try {
  if (!event.Passed()) Enqueue(WaitTask{static_cast<const HostEvent&>(event).passed_});
  return 0;
} catch (const std::bad_alloc&) {
  return -ENOMEM;
}

void HostStream::Enqueue(Task task) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
    in_flight_.fetch_add(1, std::memory_order_relaxed);
  }
  work_.notify_one();
}

void HostStream::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    const bool canceled = canceled_ > 0;
    if (canceled) --canceled_;
    lock.unlock();
    Perform(task, canceled);
    lock.lock();
    if (in_flight_.fetch_sub(1, std::memory_order_release) == 1) drained_.notify_all();
  }
}

/// A job lets go of what it holds before its completion is posted: who sees the completion may
/// count on it.
void HostStream::Perform(Task& task, bool canceled) {
  const auto finish = [&](int32_t tag, auto& job) {
    job = {};
    context_.sink->Post({tag, canceled ? -ECANCELED : 0, 0, CompletionKind::kStream});
  };
  std::visit(Overloaded{[&](CopyTask& copy) {
                          if (!canceled) CopyAll(copy.job, copy.direction);
                          finish(copy.tag, copy.job);
                        },
                        [&](ChecksumTask& sum) {
                          if (!canceled) ChecksumAll(sum);
                          finish(sum.tag, sum.job);
                        },
                        [&](CodeTask& code) {
                          if (!canceled) CodeAll(code);
                          finish(code.tag, code.job);
                        },
                        [&](TransferTask& transfer) {
                          int32_t result = -ECANCELED;
                          if (!canceled) {
                            CopyAll(transfer.gather, CopyDirection::kPagesToPool);
                            result = transfer.io();
                            ChecksumAll(transfer.checks);
                          }
                          const int32_t tag = transfer.tag;
                          transfer = {};
                          context_.sink->Post({tag, result, 0, CompletionKind::kStream});
                        },
                        [](RecordTask& record) { record.passed.set_value(); },
                        [&](WaitTask& wait) {
                          if (!canceled) wait.passed.wait();
                        }},
             task);
}

void HostStream::ChecksumAll(const ChecksumTask& task) {
  for (size_t i = 0; i < task.job.steps.size(); ++i) {
    const ChecksumStep& step = task.job.steps[i];
    const uint32_t crc =
        Crc32Strided(0, step.granule, step.bytes, step.segment_bytes, step.segment_stride_bytes);
    Report(task.result_base + i, {&crc, 1});
  }
}

void HostStream::CodeAll(const CodeTask& task) {
  size_t at = task.result_base;
  for (const CodeStep& step : task.job.steps) {
    const TemplateItem& item = *step.item;
    if (task.direction == CodeDirection::kEncode) {
      const StoredItem stored =
          StoreItem(item.coding, step.page, item.bytes, step.coded, step.stored);
      const uint32_t words[] = {static_cast<uint32_t>(stored.bytes), stored.crc32};
      Report(at, words);
      at += 2;
    } else {
      const bool sound = DecodeItem(item.coding, step.coded, step.stored, step.page, item.bytes);
      const uint32_t refused = sound ? 0 : 1;
      Report(at, {&refused, 1});
      at += 1;
    }
  }
}

void HostStream::Report(size_t first, std::span<const uint32_t> words) {
  const std::lock_guard lock(results_mutex_);
  if (!context_.results.empty())
    std::copy(words.begin(), words.end(), context_.results.begin() + static_cast<ptrdiff_t>(first));
}

bool HostStream::Drain(int64_t deadline_us) {
  const std::chrono::steady_clock::time_point deadline{std::chrono::microseconds(deadline_us)};
  std::unique_lock lock(mutex_);
  return drained_.wait_until(lock, deadline, [this] { return idle(); });
}

void HostStream::Cancel() {
  const std::lock_guard lock(mutex_);
  canceled_ = queue_.size();
}

void HostStream::Detach() {
  const std::lock_guard lock(results_mutex_);
  context_.results = {};
}

}  // namespace orbitkv
