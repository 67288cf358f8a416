#include "cuda/cuda_stream.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/system_error.h"
#include "codec/crc32.h"
#include "codec/crc32_combine.h"

namespace orbitkv::cuda {
namespace {

/// Bytes that one poll checksums on the processor, so that the owner looks elsewhere in between.
constexpr uint64_t kChecksumSliceBytes = 1 << 20;

/// Blocks of a copy kernel over the bus: measured, 8 saturate it; more would take multiprocessors
/// from the engine.
constexpr uint32_t kBusBlocks = 16;
/// Blocks for each multiprocessor inside the device.
constexpr uint32_t kInsideBlocks = 2;
constexpr uint64_t kBusTileBytes = 8 << 10;
constexpr uint32_t kBlockWarps = 16;
/// Descriptors of one batched copy: a driver was seen to fail with 50,000.
constexpr size_t kBatchMax = 1024;
/// Pieces and sums in one launch of the checksum kernel.
constexpr uint32_t kSumsMax = 1024;
constexpr size_t kPiecesMax = 32 << 10;
constexpr size_t kLanes = 32;

/// What is expected of a job, to know when to look: bytes a microsecond, and its fixed cost.
constexpr int64_t kBusBytesPerUs = 50'000;
constexpr int64_t kInsideBytesPerUs = 1'500'000;
constexpr int64_t kFixedUs = 12;
/// A fence that is late by this is asked about in the driver, and then this often.
constexpr int64_t kQueryUs = 1'000;

std::byte* Pointer(uint64_t address) { return reinterpret_cast<std::byte*>(address); }

std::shared_ptr<Pool> RequirePool(std::shared_ptr<Pool> pool, int32_t device) {
  if (pool != nullptr && pool->device() != kHostDevice && pool->device() != device)
    throw SystemError(EXDEV, "Cannot open a stream over a pool of another device");
  return pool;
}

/// The host's half of a wake: on a thread of the driver, which may call nothing of the driver.
void WakeSink(void* passed) {
  const std::unique_ptr<std::shared_ptr<CompletionSink>> sink(
      static_cast<std::shared_ptr<CompletionSink>*>(passed));
  (*sink)->Wake();
}

}  // namespace

bool CudaEvent::Passed() const {
  if (mark_ == nullptr || mark_->passed) return true;
  mark_->stream->Poll();
  return mark_->passed;
}

void CudaEvent::Synchronize() const {
  while (!Passed()) std::this_thread::yield();
}

CudaStream::CudaStream(CudaDevice& device, StreamContext context, const StreamOptions& options)
    : device_(device), driver_(device.driver()), context_(std::move(context)), options_(options) {
  RequirePool(context_.pool, device_.ordinal());
  kernels_ = device_.LoadKernels(&kernels_reason_);
  if (options_.transfer == Transfer::kKernel && kernels_ == nullptr)
    throw SystemError(ENODEV, "Cannot copy by kernels: " + kernels_reason_);
  if (context_.pool != nullptr && context_.pool->device() == kHostDevice) {
    registration_ = device_.Register(*context_.pool);
    DeviceAddress mapped = 0;
    driver_.Require(driver_.cuMemHostGetDevicePointer(&mapped, context_.pool->base(), 0),
                    "Cannot map the pool for CUDA device " + std::to_string(device_.ordinal()));
    pool_shift_ = mapped - reinterpret_cast<uint64_t>(context_.pool->base());
  }
  arena_ = std::make_unique<TileArena>(driver_);
  if (kernels_ != nullptr) sums_memory_ = device_.Allocate(kSumsMax * sizeof(uint32_t), &sums_);
  words_ = driver_.cuStreamWriteValue32 != nullptr;
  driver_.Require(driver_.cuStreamCreate(&stream_, kStreamNonBlocking), "Cannot make a stream");
  const Result made = driver_.cuStreamCreate(&watch_, kStreamNonBlocking);
  if (made != kSuccess) driver_.cuStreamDestroy(stream_);
  driver_.Require(made, "Cannot make a stream");
}

CudaStream::~CudaStream() {
  // In a dead context these fail, and its memory ends with the process.
  if (device_.MakeCurrent() != kSuccess) return;
  for (const EventPointer event : events_) driver_.cuEventDestroy(event);
  driver_.cuStreamDestroy(watch_);
  driver_.cuStreamDestroy(stream_);
}

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
  job.runs = PlanCopy(copies, direction);
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
  job.runs = PlanMoves(moves);
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
  job.runs = std::move(foreign.before);
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
      if (PieceCount(step) > kPiecesMax) return -EMSGSIZE;
    const Transfer chosen =
        Choose(options_.transfer, ShapeOf(job.runs, job.way), kernels_ != nullptr);
    job.kernel = chosen == Transfer::kKernel;
    if (!job.runs.empty()) ++(job.kernel ? kernel_jobs_ : direct_jobs_);
    const int64_t rate = job.way == Way::kInside ? kInsideBytesPerUs : kBusBytesPerUs;
    busy_until_us_ =
        std::max(busy_until_us_, MonotonicUs()) + static_cast<int64_t>(job.bytes) / rate + kFixedUs;
    job.expected_end_us = busy_until_us_;
  }
  if (job.kind == Kind::kWork || job.kind == Kind::kHostChecksum) context_.sink->Expect();
  jobs_.push_back(std::move(job));
  try {
    Launch();
  } catch (const std::bad_alloc&) {
    // The job is taken; the next poll goes on with it.
  }
  return 0;
}

int CudaStream::Record(Event& event) try {
  auto& mark = static_cast<CudaEvent&>(event).mark_;
  mark = std::make_shared<CudaEvent::Mark>();
  mark->passed = jobs_.empty();
  if (mark->passed) return 0;
  mark->stream = this;
  Job job;
  job.kind = Kind::kRecord;
  job.mark = mark;
  return Accept(std::move(job));
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

void CudaStream::Launch() {
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
  if (!LaunchRuns(job)) return false;
  if (job.enqueue != nullptr && job.error == 0) {
    Begin(job);
    job.error = job.enqueue(stream_);
    job.enqueue = nullptr;
  }
  if (!LaunchSums(job)) return false;
  // What follows the last fence of the job, and the mark of its end, need another.
  if (device_.failed()) return true;
  if (job.ended == nullptr && job.started != nullptr && job.error == 0) {
    if (const Result made = driver_.cuEventCreate(&job.ended, kEventTiming); made == kSuccess)
      driver_.cuEventRecord(job.ended, stream_);
    else
      Refused(job, made);
  }
  Fence(job);
  return true;
}

bool CudaStream::LaunchRuns(Job& job) {
  if (!job.kernel) {
    LaunchDirect(job);
    return true;
  }
  const bool inside = job.way == Way::kInside;
  const uint32_t usual = inside ? device_.multiprocessors() * kInsideBlocks : kBusBlocks;
  const uint32_t blocks = options_.blocks == 0 ? usual : options_.blocks;
  const Shape shape = ShapeOf(job.runs, job.way);
  const Slicing slicing =
      SliceFor(shape.bytes, shape.longest, uint64_t{usual} * kBlockWarps, options_.tile_bytes);
  const uint64_t bus_tile = options_.tile_bytes == 0 ? kBusTileBytes : options_.tile_bytes;
  const uint64_t tile_bytes = inside ? uint64_t{slicing.slices} * slicing.slice_bytes : bus_tile;
  while (job.run_next < job.runs.size() && job.error == 0) {
    // The last tiles of a job may need little; a region of less than this is not worth a launch.
    const size_t least = std::min<size_t>(job.runs.size() - job.run_next, 64) * sizeof(Tile);
    const auto room = arena_->Reserve(least, TileArena::kRegionBytesMax);
    if (room.empty()) return false;
    auto* tiles = reinterpret_cast<Tile*>(room.data());
    const uint32_t count = FillTiles(job, tile_bytes, {tiles, room.size() / sizeof(Tile)});
    arena_->Commit(count * sizeof(Tile));
    Begin(job);
    const DeviceAddress first = arena_->AddressOf(tiles);
    const Result launched = inside ? kernels_->Gather(stream_, first, count, slicing.slices,
                                                      slicing.slice_bytes, blocks)
                                   : kernels_->Move(stream_, first, count, blocks);
    if (launched != kSuccess) Refused(job, launched);
    if (job.run_next < job.runs.size()) Fence(job);
  }
  return true;
}

uint32_t CudaStream::FillTiles(Job& job, uint64_t tile_bytes, std::span<Tile> tiles) {
  const bool inside = job.way == Way::kInside;
  const uint64_t target_shift = job.way == Way::kFromDevice ? pool_shift_ : 0;
  const uint64_t source_shift = job.way == Way::kToDevice ? pool_shift_ : 0;
  uint32_t count = 0;
  for (; job.run_next < job.runs.size() && count < tiles.size(); ++count) {
    const Tile& run = job.runs[job.run_next];
    const uint64_t left = run.bytes - job.run_offset;
    // A rest of less than half a tile goes with the tile before it, except where slices are cut.
    const uint64_t most = inside ? tile_bytes : tile_bytes + tile_bytes / 2 - 1;
    const uint64_t bytes = left <= most ? left : tile_bytes;
    tiles[count] = {run.target + job.run_offset + target_shift,
                    run.source == 0 ? 0 : run.source + job.run_offset + source_shift, bytes};
    job.run_offset += bytes;
    if (job.run_offset == run.bytes) {
      job.run_offset = 0;
      ++job.run_next;
    }
  }
  return count;
}

void CudaStream::LaunchDirect(Job& job) {
  const auto one = [&](const Tile& run) -> Result {
    if (run.source == 0) return driver_.cuMemsetD8Async(run.target, 0, run.bytes, stream_);
    if (job.way == Way::kToDevice)
      return driver_.cuMemcpyHtoDAsync(run.target, Pointer(run.source), run.bytes, stream_);
    if (job.way == Way::kFromDevice)
      return driver_.cuMemcpyDtoHAsync(Pointer(run.target), run.source, run.bytes, stream_);
    return driver_.cuMemcpyDtoDAsync(run.target, run.source, run.bytes, stream_);
  };
  const bool zeroes = ShapeOf(job.runs, job.way).zeroes;
  if (!job.runs.empty()) Begin(job);
  while (job.run_next < job.runs.size() && job.error == 0) {
    const size_t count = std::min(kBatchMax, job.runs.size() - job.run_next);
    Result result = kNotSupported;
    if (count > 1 && !zeroes && driver_.cuMemcpyBatchAsync != nullptr) {
      std::vector<DeviceAddress> targets(count), sources(count);
      std::vector<size_t> sizes(count), attribute_first(count);
      for (size_t i = 0; i < count; ++i) {
        const Tile& run = job.runs[job.run_next + i];
        targets[i] = run.target;
        sources[i] = run.source;
        sizes[i] = run.bytes;
      }
      CopyAttributes attributes{};
      attributes.source_access_order = kAccessInStreamOrder;
      size_t failed = 0;
      result = driver_.cuMemcpyBatchAsync(targets.data(), sources.data(), sizes.data(), count,
                                          &attributes, attribute_first.data(), 1, &failed, stream_);
    }
    if (result == kNotSupported) {
      result = kSuccess;
      for (size_t i = 0; i < count && result == kSuccess; ++i)
        result = one(job.runs[job.run_next + i]);
    }
    if (result != kSuccess) Refused(job, result);
    job.run_next += count;
  }
}

/// A region: the weights of lanes, pieces, then one word of remainder for each sum.
bool CudaStream::LaunchSums(Job& job) {
  while (job.sum_next < job.sums.size() && job.error == 0) {
    constexpr size_t kLanesBytes = kLanes * sizeof(uint32_t);
    constexpr size_t kSumBytes = sizeof(uint32_t);
    const size_t first_pieces = PieceCount(job.sums[job.sum_next]);
    const size_t least = kLanesBytes + first_pieces * sizeof(Crc32Piece) + kSumBytes;
    const auto room = arena_->Reserve(least, TileArena::kRegionBytesMax);
    if (room.empty()) return false;
    auto* lanes = reinterpret_cast<uint32_t*>(room.data());
    auto* pieces = reinterpret_cast<Crc32Piece*>(room.data() + kLanesBytes);
    for (uint32_t lane = 0; lane < kLanes; ++lane) lanes[lane] = LaneWeight(lane);
    auto sums = std::make_unique<PieceSums>();
    sums->first_result = job.result_base + job.sum_next;
    size_t count = 0;
    while (job.sum_next < job.sums.size() && sums->covered_bytes.size() < kSumsMax) {
      const ChecksumStep& step = job.sums[job.sum_next];
      const size_t more = PieceCount(step);
      const size_t number = sums->covered_bytes.size();
      const size_t used = kLanesBytes + (count + more) * sizeof(Crc32Piece);
      if (used + (number + 1) * kSumBytes > room.size()) break;
      WritePieces(step, static_cast<uint32_t>(number), pieces + count);
      sums->covered_bytes.push_back(CoveredBytes(step));
      count += more;
      ++job.sum_next;
    }
    auto* remainders = reinterpret_cast<uint32_t*>(pieces + count);
    const size_t results_bytes = sums->covered_bytes.size() * kSumBytes;
    sums->remainders = remainders;
    arena_->Commit(kLanesBytes + count * sizeof(Crc32Piece) + results_bytes);
    Begin(job);
    Result result = driver_.cuMemsetD8Async(sums_, 0, results_bytes, stream_);
    if (result == kSuccess)
      result = kernels_->Crc32(stream_, arena_->AddressOf(pieces), static_cast<uint32_t>(count),
                               arena_->AddressOf(lanes), sums_,
                               device_.multiprocessors() * kInsideBlocks);
    if (result == kSuccess)
      result = driver_.cuMemcpyDtoHAsync(remainders, sums_, results_bytes, stream_);
    if (result != kSuccess) Refused(job, result);
    Fence(job, std::move(sums));
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
  driver_.cuEventRecord(job.started, stream_);
}

EventPointer CudaStream::TakeEvent() {
  EventPointer event = nullptr;
  if (!events_.empty()) {
    event = events_.back();
    events_.pop_back();
  } else if (driver_.cuEventCreate(&event, kEventNoTiming) != kSuccess) {
    return nullptr;
  }
  return event;
}

void CudaStream::Fence(Job& job, std::unique_ptr<PieceSums> sums) {
  if (device_.failed()) return;
  const uint32_t number = ++fence_;
  if (words_) {
    const Result written =
        driver_.cuStreamWriteValue32(stream_, arena_->AddressOf(arena_->word()), number, 0);
    if (written == kNotSupported)
      words_ = false;
    else if (written != kSuccess)
      return device_.Fail(written);
  }
  const EventPointer event = TakeEvent();
  const Result recorded = event == nullptr ? kOutOfMemory : driver_.cuEventRecord(event, stream_);
  // Without a fence nobody would know when the device has done.
  if (recorded != kSuccess) return device_.Fail(recorded);
  job.last_fence = number;
  pieces_.push_back({number, event, arena_->head(), false, std::move(sums)});
  next_query_us_ = std::max(next_query_us_, job.expected_end_us + kQueryUs);
}

void CudaStream::Refused(Job& job, Result result) {
  job.error = device_.Note(result) ? -ENODEV : result == kOutOfMemory ? -ENOMEM : -EIO;
}

uint32_t CudaStream::word() const {
  return std::atomic_ref<uint32_t>(*arena_->word()).load(std::memory_order_acquire);
}

void CudaStream::Poll() {
  if (jobs_.empty()) return;
  // Another stream may have met the error that ended the device.
  if (!device_.failed()) Reap();
  if (!device_.failed()) Finish();
  if (!device_.failed()) Launch();
  if (device_.failed()) FailAll();
}

void CudaStream::Reap() {
  if (pieces_.empty()) return;
  if (words_) {
    const uint32_t written = word();
    while (!pieces_.empty() && static_cast<int32_t>(written - pieces_.front().fence) >= 0) {
      Absorb(pieces_.front());
      pieces_.pop_front();
    }
    if (pieces_.empty()) return;
    const int64_t now_us = MonotonicUs();
    if (now_us < next_query_us_) return;
    next_query_us_ = now_us + kQueryUs;
  }
  if (const Result entered = device_.MakeCurrent(); entered != kSuccess)
    return device_.Fail(entered);
  while (!pieces_.empty()) {
    const Result result = driver_.cuEventQuery(pieces_.front().event);
    if (result == kNotReady) return;
    if (result != kSuccess) return device_.Fail(result);
    Absorb(pieces_.front());
    pieces_.pop_front();
  }
}

void CudaStream::Absorb(Piece& piece) {
  passed_ = piece.fence;
  arena_->Release(piece.arena_end);
  events_.push_back(piece.event);
  if (piece.sums == nullptr || context_.results.empty()) return;
  const auto& [remainders, first, covered] = *piece.sums;
  for (size_t i = 0; i < covered.size(); ++i)
    context_.results[first + i] = Crc32FromRemainder(remainders[i], covered[i]);
}

void CudaStream::Finish() {
  while (!jobs_.empty()) {
    Job& job = jobs_.front();
    if (job.kind == Kind::kHostChecksum && job.error == 0) {
      if (!FinishChecksum(job)) return;
    } else if (job.kind == Kind::kWait) {
      if (!job.mark->passed && job.error == 0) return;
    } else if (job.kind == Kind::kRecord) {
      job.mark->passed = true;
      job.mark->stream = nullptr;
    } else if (!job.launched || !HasPassed(job.last_fence)) {
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
  for (uint64_t done = 0; job.sum_next < job.sums.size(); ++job.sum_next) {
    if (done >= kChecksumSliceBytes) return false;
    const ChecksumStep& step = job.sums[job.sum_next];
    const uint32_t crc =
        Crc32Strided(0, step.granule, step.bytes, step.segment_bytes, step.segment_stride_bytes);
    if (!context_.results.empty()) context_.results[job.result_base + job.sum_next] = crc;
    done += step.bytes;
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
  context_.sink->PostLocal({job.tag, result, nanoseconds, CompletionKind::kStream});
}

void CudaStream::FailAll() {
  pieces_.clear();
  std::deque<Job> lost = std::exchange(jobs_, {});
  launch_next_ = 0;
  for (Job& job : lost) {
    if (job.mark != nullptr && job.kind == Kind::kRecord) {
      job.mark->passed = true;
      job.mark->stream = nullptr;
    }
    if (job.kind == Kind::kWork || job.kind == Kind::kHostChecksum) Post(job, -ENODEV);
  }
}

int64_t CudaStream::NextEndUs() const {
  if (jobs_.empty()) return kNever;
  if (device_.failed()) return kNow;
  const Job& next = jobs_.front();
  if (next.kind == Kind::kHostChecksum) return kNow;
  if (next.kind == Kind::kWait) return kNever;
  return next.expected_end_us;
}

void CudaStream::WakeAtEnds() {
  if (pieces_.empty() || pieces_.back().armed || device_.MakeCurrent() != kSuccess) return;
  for (Piece& piece : pieces_) {
    if (std::exchange(piece.armed, true)) continue;
    if (driver_.cuStreamWaitEvent(watch_, piece.event, 0) != kSuccess) continue;
    auto sink = std::make_unique<std::shared_ptr<CompletionSink>>(context_.sink);
    // A refused wake is late by a port's longest sleep, no more.
    if (driver_.cuLaunchHostFunc(watch_, WakeSink, sink.get()) == kSuccess) [[maybe_unused]]
      const auto owned = sink.release();
  }
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
  for (size_t at = 0; at < jobs_.size(); ++at) {
    Job& job = jobs_[at];
    const bool untouched = job.kind == Kind::kWork && !job.launched && !job.begun;
    const bool unsummed = job.kind == Kind::kHostChecksum && job.sum_next == 0;
    if (!untouched && !unsummed && job.kind != Kind::kWait) continue;
    job.error = -ECANCELED;
    // It ends in its turn, when what is before it has passed.
    job.launched = true;
    job.last_fence = passed_;
  }
}

}  // namespace orbitkv::cuda
