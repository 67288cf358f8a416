// The half of CudaStream that takes jobs: decoded, planned and queued.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/clock.h"
#include "cuda/choice.h"
#include "cuda/crc32_runs.h"
#include "cuda/cuda_stream.h"

namespace orbitkv::cuda {
namespace {

/// What is expected of a job, to know when to look: bytes a microsecond, and its fixed cost.
constexpr int64_t kBusBytesPerUs = 50'000;
constexpr int64_t kInsideBytesPerUs = 1'500'000;
constexpr int64_t kFixedUs = 12;

}  // namespace

std::span<const double> CudaStream::Snapshot(std::span<const double> descriptors) {
  snapshot_.resize(descriptors.size());
  std::memcpy(snapshot_.data(), descriptors.data(), descriptors.size_bytes());
  // The compiler may not read the shared memory a second time in place of the copy.
  std::atomic_signal_fence(std::memory_order_acq_rel);
  return snapshot_;
}

int CudaStream::Admit() const {
  if (device_.failed()) return -ENODEV;
  return jobs_.size() >= kJobsMax ? -EAGAIN : 0;
}

bool CudaStream::ResultsFit(size_t base, size_t count) const {
  return base <= context_.results.size() && count <= context_.results.size() - base;
}

int CudaStream::Copy(int32_t tag, CopyDirection direction,
                     std::span<const double> descriptors) try {
  if (const int refused = Admit(); refused != 0) return refused;
  CopyJob copies;
  const int decoded =
      DecodeCopies(Snapshot(descriptors), context_.pool, device_.ordinal(), &copies);
  if (decoded != 0) return decoded;
  Job job;
  job.tag = tag;
  job.runs = RunCursor(PlanCopy(copies, direction));
  const bool host = context_.pool->device() == kHostDevice;
  job.way = !host                                      ? Way::kInside
            : direction == CopyDirection::kPoolToPages ? Way::kToDevice
                                                       : Way::kFromDevice;
  job.bytes = copies.bytes;
  job.holds.assign(copies.templates.begin(), copies.templates.end());
  job.holds.push_back(copies.pool);
  return Accept(std::move(job));
} catch (const std::bad_alloc&) {
  return -ENOMEM;
}

int CudaStream::Move(int32_t tag, std::span<const double> descriptors) try {
  if (const int refused = Admit(); refused != 0) return refused;
  MoveJob moves;
  const int decoded = DecodeMoves(Snapshot(descriptors), device_.ordinal(), &moves);
  if (decoded != 0) return decoded;
  Job job;
  job.tag = tag;
  job.runs = RunCursor(PlanMoves(moves));
  job.bytes = moves.bytes;
  job.holds.assign(moves.mappings.begin(), moves.mappings.end());
  return Accept(std::move(job));
} catch (const std::bad_alloc&) {
  return -ENOMEM;
}

int CudaStream::Checksum(int32_t tag, std::span<const double> descriptors, size_t result_base) try {
  if (const int refused = Admit(); refused != 0) return refused;
  ChecksumJob sums;
  const int decoded = DecodeChecksums(Snapshot(descriptors), context_.pool, &sums);
  if (decoded != 0) return decoded;
  if (!ResultsFit(result_base, sums.steps.size())) return -EINVAL;
  Job job;
  if (context_.pool->device() == kHostDevice)
    job.kind = Kind::kHostChecksum;
  else if (kernels_ == nullptr)
    return -EOPNOTSUPP;
  job.tag = tag;
  job.sums = std::move(sums.steps);
  job.result_base = result_base;
  job.bytes = sums.bytes;
  job.holds.push_back(sums.pool);
  return Accept(std::move(job));
} catch (const std::bad_alloc&) {
  return -ENOMEM;
}

int CudaStream::ChecksumMapped(int32_t tag, std::span<const double> descriptors,
                               size_t result_base) try {
  if (const int refused = Admit(); refused != 0) return refused;
  MappedChecksumJob sums;
  const int decoded = DecodeMappedChecksums(Snapshot(descriptors), device_.ordinal(), &sums);
  if (decoded != 0) return decoded;
  if (!ResultsFit(result_base, sums.steps.size())) return -EINVAL;
  if (kernels_ == nullptr) return -EOPNOTSUPP;
  Job job;
  job.tag = tag;
  job.sums = std::move(sums.steps);
  job.result_base = result_base;
  job.bytes = sums.bytes;
  job.holds.assign(sums.mappings.begin(), sums.mappings.end());
  return Accept(std::move(job));
} catch (const std::bad_alloc&) {
  return -ENOMEM;
}

int CudaStream::Submit(ForeignJob foreign) try {
  if (const int refused = Admit(); refused != 0) return refused;
  if (!foreign.after.empty() && kernels_ == nullptr) return -EOPNOTSUPP;
  if (!ResultsFit(foreign.result_base, foreign.after.size())) return -EINVAL;
  Job job;
  job.tag = foreign.tag;
  job.runs = RunCursor(std::move(foreign.before));
  job.enqueue = std::move(foreign.enqueue);
  job.result = std::move(foreign.result);
  job.sums = std::move(foreign.after);
  job.result_base = foreign.result_base;
  job.bytes = foreign.bytes;
  job.holds = std::move(foreign.holds);
  return Accept(std::move(job));
} catch (const std::bad_alloc&) {
  return -ENOMEM;
}

int CudaStream::Accept(Job job) {
  if (job.kind == Kind::kWork) {
    for (const ChecksumStep& step : job.sums)
      if (RunCount(step) > DeviceSums::kRunsMax) return -EMSGSIZE;
    const Shape shape = ShapeOf(job.runs.runs(), job.way);
    job.kernel = Choose(options_.transfer, shape, kernels_ != nullptr) == Transfer::kKernel;
    if (job.kernel) job.plan = kernel_copies_->PlanFor(shape);
    if (!job.runs.done()) ++(job.kernel ? kernel_jobs_ : direct_jobs_);
    const int64_t rate = job.way == Way::kInside ? kInsideBytesPerUs : kBusBytesPerUs;
    job.cost_us = static_cast<int64_t>(job.bytes) / rate + kFixedUs;
  }
  if (job.kind == Kind::kWork || job.kind == Kind::kHostChecksum) context_.sink->Expect();
  if (jobs_.empty()) front_since_us_ = MonotonicUs();
  jobs_.push_back(std::move(job));
  Launch();
  return 0;
}

int CudaStream::Record(Event& event) try {
  auto mark = std::make_shared<CudaEvent::Mark>();
  if (jobs_.empty()) {
    mark->passed = true;
  } else {
    mark->stream = this;
    Job job;
    job.kind = Kind::kRecord;
    job.mark = mark;
    Accept(std::move(job));
  }
  static_cast<CudaEvent&>(event).mark_ = std::move(mark);
  return 0;
} catch (const std::bad_alloc&) {
  return -ENOMEM;
}

int CudaStream::Wait(const Event& event) try {
  if (event.Passed()) return 0;
  Job job;
  job.kind = Kind::kWait;
  job.mark = static_cast<const CudaEvent&>(event).mark_;
  return Accept(std::move(job));
} catch (const std::bad_alloc&) {
  return -ENOMEM;
}

}  // namespace orbitkv::cuda
