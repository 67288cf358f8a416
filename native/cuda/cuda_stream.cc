#include "cuda/cuda_stream.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/system_error.h"
#include "codec/crc32.h"

namespace orbitkv::cuda {
namespace {

/// Bytes that one poll checksums on the processor, so that the owner looks elsewhere in between.
constexpr uint64_t kChecksumSliceBytes = 1 << 20;
/// A fence that is late by this is asked about in the driver.
constexpr int64_t kLateUs = 1'000;
/// Pieces of jobs of the copy engine on the device at once: each is up to a thousand commands, and
/// a driver makes its caller wait when too many are queued.
constexpr size_t kDirectPiecesMax = 8;

void RequirePool(const std::shared_ptr<Pool>& pool, int32_t device) {
  if (pool != nullptr && pool->device() != kHostDevice && pool->device() != device)
    throw SystemError(EXDEV, "Cannot open a stream over a pool of another device");
}

}  // namespace

void CudaStream::DestroyStream::operator()(StreamPointer stream) const {
  // In a dead context this fails, and its memory ends with the process.
  if (device->MakeCurrent() == kSuccess) device->driver().cuStreamDestroy(stream);
}

CudaStream::CudaStream(CudaDevice& device, StreamContext context, const StreamOptions& options)
    : device_(device),
      driver_(device.driver()),
      context_(std::move(context)),
      options_(options),
      stream_(nullptr, DestroyStream{&device}),
      direct_(driver_) {
  RequirePool(context_.pool, device_.ordinal());
  kernels_ = device_.LoadKernels(&kernels_reason_);
  if (options_.transfer == Transfer::kKernel && kernels_ == nullptr)
    throw SystemError(ENODEV, "Cannot copy by kernels: " + kernels_reason_);
  uint64_t pool_shift = 0;
  if (context_.pool != nullptr && context_.pool->device() == kHostDevice) {
    registration_ = device_.Register(*context_.pool);
    DeviceAddress mapped = 0;
    driver_.Require(driver_.cuMemHostGetDevicePointer(&mapped, context_.pool->base(), 0),
                    "Cannot map the pool for CUDA device " + std::to_string(device_.ordinal()));
    pool_shift = mapped - reinterpret_cast<uint64_t>(context_.pool->base());
  }
  arena_ = std::make_unique<TileArena>(driver_);
  StreamPointer made = nullptr;
  driver_.Require(driver_.cuStreamCreate(&made, kStreamNonBlocking), "Cannot make a stream");
  stream_.reset(made);
  fences_ = std::make_unique<Fences>(device_, made, *arena_, context_.sink);
  if (kernels_ != nullptr) {
    kernel_copies_.emplace(device_, *kernels_, *arena_, options_, pool_shift);
    run_sums_.emplace(device_, *kernels_);
    device_sums_.emplace(device_, *run_sums_, *arena_);
  }
  codes_.emplace(device_, run_sums_ ? &*run_sums_ : nullptr, *arena_, options_);
  hold_.emplace(codes_->encoding());
}

// What is in flight has ended; members end in the reverse order of what they use.
CudaStream::~CudaStream() = default;

StreamReport CudaStream::report() const {
  StreamReport report;
  report.device = "cuda:" + std::to_string(device_.ordinal());
  report.transfer = options_.transfer;
  report.kernels = kernels_ != nullptr;
  report.kernels_reason = kernels_reason_;
  report.pool_registered = registration_ != nullptr;
  report.pool_register_ms = registration_ == nullptr ? 0 : registration_->milliseconds;
  report.direct_jobs = direct_jobs_;
  report.kernel_jobs = kernel_jobs_;
  return report;
}

void CudaStream::Launch() noexcept {
  if (launch_next_ >= jobs_.size()) return;
  if (const Result entered = device_.MakeCurrent(); entered != kSuccess)
    return device_.Fail(entered);
  while (launch_next_ < jobs_.size() && !device_.failed()) {
    Job& job = jobs_[launch_next_];
    if (job.kind == Kind::kWait && !job.mark->passed && job.error == 0) return;
    if (job.kind == Kind::kWork && !job.launched && !LaunchWork(job)) return;
    job.launched = true;
    ++launch_next_;
  }
}

bool CudaStream::LaunchWork(Job& job) {
  if (!(job.codes == nullptr ? LaunchRuns(job) : LaunchCodes(job))) return false;
  if (job.enqueue != nullptr && job.error == 0) {
    Begin(job);
    job.error = job.enqueue(stream_.get());
    job.enqueue = nullptr;
  }
  if (!LaunchSums(job) || !fences_->HasRoom()) return false;
  // What follows the last fence of the job, and the mark of its end, need another.
  if (!device_.failed()) End(job);
  return true;
}

bool CudaStream::LaunchRuns(Job& job) {
  while (!job.runs.done() && job.error == 0) {
    if (!fences_->HasRoom()) return false;
    if (!job.kernel && job.runs.begun() && fences_->pending() >= kDirectPiecesMax) return false;
    const auto room = job.kernel ? kernel_copies_->Reserve(job.runs) : std::span<std::byte>();
    if (job.kernel && room.empty()) return false;
    Begin(job);
    const Result result =
        job.kernel ? kernel_copies_->Launch(stream_.get(), room, job.runs, job.plan)
                   : direct_.Launch(stream_.get(), job.way, job.runs.Take(direct_.runs_max()));
    if (result != kSuccess) Refused(job, result);
    if (!job.runs.done() && !device_.failed()) job.last_fence = fences_->Place();
  }
  return true;
}

bool CudaStream::LaunchSums(Job& job) {
  while (job.sum_next < job.sums.size() && job.error == 0) {
    if (!fences_->HasRoom()) return false;
    const auto room = device_sums_->Reserve(job.sums_left());
    if (room.empty()) return false;
    Begin(job);
    size_t count = 0;
    const Result result = device_sums_->Launch(stream_.get(), room, job.sums_left(),
                                               job.result_base + job.sum_next, &count);
    job.sum_next += count;
    if (result != kSuccess) Refused(job, result);
    if (device_.failed()) continue;
    job.last_fence = fences_->Place();
    if (result == kSuccess) device_sums_->Expect(job.last_fence);
  }
  return true;
}

void CudaStream::Begin(Job& job) {
  if (job.begun) return;
  job.begun = true;
  if (!options_.timed) return;
  if (driver_.cuEventCreate(&job.started, kEventTiming) != kSuccess) {
    job.started = nullptr;
    return;
  }
  device_.Note(driver_.cuEventRecord(job.started, stream_.get()));
}

void CudaStream::End(Job& job) {
  if (job.ended == nullptr && job.started != nullptr && job.error == 0) {
    if (const Result made = driver_.cuEventCreate(&job.ended, kEventTiming); made == kSuccess)
      device_.Note(driver_.cuEventRecord(job.ended, stream_.get()));
    else
      Refused(job, made);
  }
  job.last_fence = fences_->Place();
}

void CudaStream::Refused(Job& job, Result result) {
  job.error = device_.Note(result) ? -ENODEV : result == kOutOfMemory ? -ENOMEM : -EIO;
}

void CudaStream::Poll() noexcept {
  if (jobs_.empty()) return;
  // Another stream may have met the error that ended the device.
  if (!device_.failed()) fences_->Reap(front_since_us_ + jobs_.front().cost_us + kLateUs);
  if (!device_.failed()) {
    if (device_sums_) device_sums_->Collect(*fences_, context_.results);
    codes_->Collect(*fences_, context_.results);
    Finish();
  }
  if (!device_.failed()) Launch();
  if (device_.failed()) FailAll();
}

void CudaStream::Finish() {
  for (; !jobs_.empty(); front_since_us_ = MonotonicUs()) {
    Job& job = jobs_.front();
    if (job.kind == Kind::kHostChecksum && job.error == 0) {
      if (!FinishChecksum(job)) return;
    } else if (job.kind == Kind::kWait) {
      if (!job.mark->passed && job.error == 0) return;
    } else if (job.kind == Kind::kRecord) {
      job.mark->passed = true;
      job.mark->stream = nullptr;
    } else if (!job.launched || !fences_->HasPassed(job.last_fence)) {
      return;
    } else if (job.codes != nullptr && job.error == 0 && !FinishCodes(job)) {
      return;
    }
    const int32_t result = job.error != 0 ? job.error : (job.result == nullptr ? 0 : job.result());
    const bool posts = job.kind == Kind::kWork || job.kind == Kind::kHostChecksum;
    Job ended = std::move(job);
    jobs_.pop_front();
    if (launch_next_ > 0) --launch_next_;
    if (posts) Post(ended, result);
  }
}

/// True when the last step is done. One slice a call.
bool CudaStream::FinishChecksum(Job& job) {
  for (uint64_t done = 0; job.sum_next < job.sums.size();) {
    if (done >= kChecksumSliceBytes) return false;
    const ChecksumStep& step = job.sums[job.sum_next];
    const bool whole = step.segment_bytes == step.segment_stride_bytes;
    const uint64_t unit = whole ? 1 : step.segment_stride_bytes;
    const uint64_t slice = std::max(kChecksumSliceBytes / unit, uint64_t{1}) * unit;
    const uint64_t here = std::min(slice, step.bytes - job.sum_offset);
    job.sum_crc =
        Crc32Strided(job.sum_crc, step.granule + job.sum_offset, here,
                     whole ? here : step.segment_bytes, whole ? here : step.segment_stride_bytes);
    job.sum_offset += here;
    done += here;
    if (job.sum_offset < step.bytes) continue;
    if (!context_.results.empty()) context_.results[job.result_base + job.sum_next] = job.sum_crc;
    job.sum_offset = job.sum_crc = 0;
    ++job.sum_next;
  }
  return true;
}

/// Nanoseconds between the marks of a job; 0 without them.
int32_t CudaStream::DeviceTime(Job& job) {
  float milliseconds = 0;
  if (job.started != nullptr && job.ended != nullptr && device_.MakeCurrent() == kSuccess) {
    // The end's mark stands before the fence that has passed.
    if (driver_.cuEventElapsedTime(&milliseconds, job.started, job.ended) != kSuccess)
      milliseconds = 0;
  }
  for (const EventPointer event : {job.started, job.ended})
    if (event != nullptr) driver_.cuEventDestroy(event);
  constexpr float kMillisecondsMax = 2000;
  return static_cast<int32_t>(std::min(milliseconds, kMillisecondsMax) * 1e6f);
}

/// A job lets go of what it holds before its completion is posted: who sees the completion may
/// count on it.
void CudaStream::Post(Job& job, int32_t result) {
  const int32_t nanoseconds = options_.timed && !device_.failed() ? DeviceTime(job) : 0;
  job.holds.clear();
  job.enqueue = nullptr;
  job.result = nullptr;
  if (job.codes != nullptr && job.codes->held) hold_->Ended(*job.codes, result);
  context_.sink->PostLocal({job.tag, result, nanoseconds, CompletionKind::kStream});
}

void CudaStream::FailAll() {
  fences_->Forget();
  if (device_sums_) device_sums_->Forget();
  codes_->Forget();
  launch_next_ = 0;
  while (!jobs_.empty()) {
    Job lost = std::move(jobs_.front());
    jobs_.pop_front();
    if (lost.kind == Kind::kRecord) {
      lost.mark->passed = true;
      lost.mark->stream = nullptr;
    }
    if (lost.kind == Kind::kWork || lost.kind == Kind::kHostChecksum) Post(lost, -ENODEV);
  }
}

int64_t CudaStream::NextEndUs() const {
  if (jobs_.empty()) return kNever;
  if (device_.failed()) return kNow;
  const Job& next = jobs_.front();
  if (next.kind == Kind::kHostChecksum) return kNow;
  if (next.kind == Kind::kWait) return kNever;
  if (next.codes != nullptr && next.codes->sizes_due_us != 0) return next.codes->sizes_due_us;
  return front_since_us_ + next.cost_us;
}

bool CudaStream::Drain(int64_t deadline_us) {
  for (;;) {
    Poll();
    if (jobs_.empty()) return true;
    if (MonotonicUs() >= deadline_us) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void CudaStream::Cancel() {
  for (Job& job : jobs_) {
    const bool untouched = job.kind == Kind::kWork && !job.launched && !job.begun;
    const bool unsummed =
        job.kind == Kind::kHostChecksum && job.sum_next == 0 && job.sum_offset == 0;
    if (!untouched && !unsummed && job.kind != Kind::kWait) continue;
    job.error = -ECANCELED;
    // It ends in its turn, when what is before it has passed.
    job.launched = true;
    job.last_fence = fences_->passed();
  }
}

}  // namespace orbitkv::cuda
