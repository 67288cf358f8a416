// The half of CudaStream that codes items. A batch goes to the device in stages, each of which may
// have to wait for room:
//
//   encode   hold the workspace | pages are coded into it, and summed | it goes to the pool | seal
//   ANS      hold the workspace | pages are coded into it | lengths come | it is summed | and so on
//   decode   hold the workspace | the pool goes to it | it is decoded into pages | seal
//
// Sealing brings home what the device says of each item, behind which the fence stands. A batch
// that the processor encodes goes from its pages to a buffer, and on when the fence has passed.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/clock.h"
#include "codec/crc32.h"
#include "cuda/choice.h"
#include "cuda/cuda_stream.h"

namespace orbitkv::cuda {
namespace {

using Stage = CodeWork::Stage;

/// How long nvCOMP is expected to encode, to know when to look: bytes a microsecond, and what every
/// batch costs.
constexpr int64_t kAnsBytesPerUs = 250'000;
constexpr int64_t kAnsFixedUs = 15;

int64_t BytesOf(const CodeBatch& batch) {
  int64_t bytes = 0;
  for (const CodeItem& item : batch.items) bytes += item.stored == 0 ? 0 : item.bytes;
  return bytes;
}

}  // namespace

int CudaStream::Encode(int32_t tag, std::span<const double> descriptors, size_t result_base) {
  return Code(tag, CodeDirection::kEncode, descriptors, result_base, false);
}

int CudaStream::EncodeHeld(int32_t tag, std::span<const double> descriptors, size_t result_base) {
  return Code(tag, CodeDirection::kEncode, descriptors, result_base, true);
}

int CudaStream::Decode(int32_t tag, std::span<const double> descriptors, size_t result_base) {
  return Code(tag, CodeDirection::kDecode, descriptors, result_base, false);
}

int CudaStream::Code(int32_t tag, CodeDirection direction, std::span<const double> descriptors,
                     size_t result_base, bool held) try {
  if (const int refused = Admit(); refused != 0) return refused;
  if (direction == CodeDirection::kEncode && !hold_->none()) return -EBUSY;
  CodeJob codes;
  const int decoded =
      DecodeCodes(Snapshot(descriptors), direction, context_.pool, device_.ordinal(), &codes);
  if (decoded != 0) return decoded;
  const size_t words = direction == CodeDirection::kEncode ? 2 : 1;
  if (!ResultsFit(result_base, words * codes.steps.size())) return -EINVAL;
  const bool encodes = direction == CodeDirection::kEncode;
  const bool by_nvcomp = std::any_of(
      codes.steps.begin(), codes.steps.end(),
      [](const CodeStep& step) { return step.item->coding.format == ItemFormat::kAns; });
  if (by_nvcomp && !encodes && nvcomp::Library::Instance().functions() == nullptr)
    return -EOPNOTSUPP;
  Job job;
  job.tag = tag;
  job.codes = std::make_unique<CodeWork>();
  job.codes->direction = direction;
  job.codes->steps = std::move(codes.steps);
  job.codes->result_base = result_base;
  job.codes->inside = context_.pool->device() != kHostDevice;
  job.codes->held = held;
  // Where the pool is on the device nothing is made in the workspace.
  if (held && job.codes->inside) return -EOPNOTSUPP;
  job.way = job.codes->inside ? Way::kInside : encodes ? Way::kFromDevice : Way::kToDevice;
  job.bytes = codes.bytes;
  job.holds.assign(codes.templates.begin(), codes.templates.end());
  job.holds.push_back(codes.pool);
  if (const Result entered = device_.MakeCurrent(); entered != kSuccess) {
    device_.Fail(entered);
    return -ENODEV;
  }
  const int prepared = codes_->Prepare(*job.codes);
  if (held) {
    if (prepared != 0) return prepared;
    const std::vector<CodeBatch>& batches = job.codes->batches;
    if (batches.size() != 1 || !batches.front().on_device()) return -E2BIG;
    hold_->Begin(device_.ordinal(), job.codes->steps.size());
  } else if (prepared != 0) {
    // It ends in its turn, with nothing done.
    job.error = prepared;
    job.launched = true;
    job.last_fence = fences_->passed();
  }
  return Accept(std::move(job));
} catch (const std::bad_alloc&) {
  if (held) hold_->Abandon();
  return -ENOMEM;
}

CodecWorkspace CudaStream::codec_workspace() const { return codes_->report(); }

int CudaStream::ReleaseCodecWorkspace() {
  if (!hold_->none()) return -EBUSY;
  // A job leaves when the device has passed all of it, also one that failed in between.
  if (std::any_of(jobs_.begin(), jobs_.end(), [](const Job& job) { return job.codes != nullptr; }))
    return -EBUSY;
  codes_->Release();
  return 0;
}

bool CudaStream::LaunchCodes(Job& job) {
  CodeWork& work = *job.codes;
  while (work.next < work.batches.size() && job.error == 0 && !device_.failed()) {
    if (!fences_->HasRoom() || !LaunchBatch(job, work, work.batches[work.next])) return false;
    ++work.next;
    work.stage = Stage::kHold;
  }
  return true;
}

bool CudaStream::LaunchBatch(Job& job, CodeWork& work, CodeBatch& batch) {
  const bool encodes = work.direction == CodeDirection::kEncode;
  if (work.stage == Stage::kHold) {
    const Result held = codes_->Hold(work, batch, fences_->pending() == 0);
    if (held == kNotReady) return false;
    if (held != kSuccess) {
      if (device_.failed()) return true;
      // What there is no memory to encode with stays what it is.
      if (!encodes) job.error = -ENOMEM;
      batch.units = 0;
    }
    if (batch.on_device() && batch.units == 0) {
      SealBatch(job, work, {});
      return true;
    }
    if (!batch.ans || !encodes) {
      const DeviceAddress base = codes_->BaseOf(work, batch);
      const bool to_base = encodes != batch.on_device();
      for (Tile& run : batch.runs) (to_base ? run.target : run.source) += base;
      PlanRuns(job, std::move(batch.runs), batch.on_device());
    }
    if (!encodes && !batch.on_device()) codes_->DecodeHere(work, batch, context_.results);
    work.stage = encodes && batch.on_device() ? Stage::kCode : Stage::kMove;
  }
  if (work.stage == Stage::kCode && encodes) {
    if (!CodeOnDevice(job, work, batch)) return false;
    work.stage = batch.ans ? Stage::kSizes : Stage::kMove;
  }
  if (work.stage == Stage::kSizes && !batch.sized) {
    if (job.error == 0 && !device_.failed()) return false;
    return true;
  }
  if (work.stage == Stage::kSizes) {
    work.sizes_due_us = 0;
    codes_->PlanRuns(work, batch);
    if (batch.runs.empty()) {
      if (!fences_->HasRoom()) return false;
      SealBatch(job, work, {});
      return true;
    }
    PlanRuns(job, std::move(batch.runs), true);
    work.stage = Stage::kSum;
  }
  if (work.stage == Stage::kSum) {
    if (!SumOnDevice(job, work, batch)) return false;
    work.stage = Stage::kMove;
  }
  if (work.stage == Stage::kMove) {
    if (!LaunchRuns(job)) return false;
    work.stage = encodes ? Stage::kSeal : Stage::kCode;
  }
  if (work.stage == Stage::kCode) {
    if (batch.on_device() && !CodeOnDevice(job, work, batch)) return false;
    work.stage = Stage::kSeal;
  }
  if (job.error != 0 || device_.failed()) return true;
  if (!fences_->HasRoom()) return false;
  if (!batch.on_device()) {
    SealBatch(job, work, {});
    return true;
  }
  if (batch.ans && !encodes) {
    SealBatch(job, work, work.arrays);
    return true;
  }
  const auto room = codes_->ReserveWords(batch);
  if (room.empty()) return false;
  if (const Result result = codes_->Return(stream_.get(), room, work, batch); result != kSuccess)
    Refused(job, result);
  else
    SealBatch(job, work, room);
  return true;
}

void CudaStream::PlanRuns(Job& job, std::vector<Tile> runs, bool pool) {
  job.runs = RunCursor(std::move(runs));
  const Shape shape = ShapeOf(job.runs.runs(), job.way);
  // The buffer is no part of the pool, whose addresses kernels know.
  job.kernel = pool && Choose(options_.transfer, shape, kernels_ != nullptr) == Transfer::kKernel;
  if (job.kernel) job.plan = kernel_copies_->PlanFor(shape);
}

bool CudaStream::CodeOnDevice(Job& job, CodeWork& work, CodeBatch& batch) {
  if (job.error != 0 || device_.failed()) return true;
  if (!fences_->HasRoom()) return false;
  const auto room = codes_->Reserve(batch);
  if (room.empty()) return false;
  Begin(job);
  if (const Result result = codes_->Launch(stream_.get(), room, work, batch); result != kSuccess) {
    Refused(job, result);
    return true;
  }
  if (!batch.ans) return true;
  if (work.direction == CodeDirection::kDecode) {
    work.arrays = room;
    return true;
  }
  job.last_fence = fences_->Place();
  codes_->ExpectSizes(job.last_fence, room, work, work.next);
  work.sizes_due_us = MonotonicUs() + BytesOf(batch) / kAnsBytesPerUs + kAnsFixedUs;
  return true;
}

bool CudaStream::SumOnDevice(Job& job, const CodeWork& work, CodeBatch& batch) {
  if (job.error != 0 || device_.failed()) return true;
  const auto room = codes_->ReserveSums(batch);
  if (room.empty()) return false;
  if (const Result result = codes_->LaunchSums(stream_.get(), room, work, batch);
      result != kSuccess)
    Refused(job, result);
  return true;
}

void CudaStream::SealBatch(Job& job, CodeWork& work, std::span<const std::byte> room) {
  job.last_fence = fences_->Place();
  codes_->Expect(job.last_fence, room, work, work.next);
}

bool CudaStream::FinishCodes(Job& job) {
  CodeWork& work = *job.codes;
  if (work.raw.empty()) return true;
  if (!work.raw_moved) {
    if (const Result entered = device_.MakeCurrent(); entered != kSuccess) {
      device_.Fail(entered);
      return false;
    }
    if (work.raw_runs.empty()) {
      for (const uint32_t at : work.raw) {
        const CodeStep& step = work.steps[at];
        work.raw_runs.push_back({reinterpret_cast<uint64_t>(step.coded),
                                 reinterpret_cast<uint64_t>(step.page), step.item->bytes});
      }
      job.runs = RunCursor(work.raw_runs);
      job.kernel = false;
    }
    if (!LaunchRuns(job) || !fences_->HasRoom()) return false;
    if (!device_.failed()) End(job);
    work.raw_moved = true;
    return false;
  }
  const CodeStep& step = work.steps[work.raw[work.raw_next]];
  const uint64_t bytes = step.item->bytes;
  std::memset(step.coded + bytes, 0, AlignCoded(bytes) - bytes);
  if (!context_.results.empty()) {
    const size_t place = work.result_base + 2 * work.raw[work.raw_next];
    context_.results[place] = static_cast<uint32_t>(bytes);
    context_.results[place + 1] = crc32(0, step.coded, bytes);
  }
  return ++work.raw_next == work.raw.size();
}

}  // namespace orbitkv::cuda
