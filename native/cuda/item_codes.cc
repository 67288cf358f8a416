#include "cuda/item_codes.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/system_error.h"
#include "codec/crc32_combine.h"
#include "cuda/crc32_runs.h"

namespace orbitkv::cuda {
namespace {

/// Blocks for each multiprocessor, of 8 warps: four times as many as their registers allow at once,
/// so that those that end early make room for others.
constexpr uint32_t kCodeBlocks = 16;

/// What the kernel of FP8 sums with, as fp8_source.h has it.
using Powers = std::array<uint32_t, kFp8LanePowers + kFp8StepPowersMax>;
const Powers& Fp8Powers() {
  static const Powers powers = [] {
    Powers made;
    for (uint32_t lane = 0; lane < kFp8LanePowers; ++lane)
      made[lane] = Crc32Shift(8 * (kFp8LanePowers - 1 - lane));
    const uint32_t step = Crc32Shift(kFp8StepCodes);
    uint32_t power = Crc32Shift(0);
    for (uint32_t i = 0; i < kFp8StepPowersMax; ++i, power = Crc32Times(power, step))
      made[kFp8LanePowers + i] = power;
    return made;
  }();
  return powers;
}

/// Whether orbitkv_crc32 sums a coding: the kernel that makes it has not.
bool SumsApart(const CodeItem& item) { return item.stored != 0 && (item.unit & kSummed) == 0; }

}  // namespace

static_assert(CodeBatch::kHeadBytes <= TileArena::kRegionBytesMax);
static_assert(kCodedBytesMax <= Crc32Run::kBytesMax);

ItemCodes::ItemCodes(CudaDevice& device, RunSums* sums, TileArena& arena,
                     const StreamOptions& options)
    : device_(device),
      driver_(device.driver()),
      sums_(sums),
      arena_(arena),
      staging_budget_bytes_(options.codec_staging_budget_bytes),
      encoding_(device, options.encode_budget_bytes.value_or(options.codec_budget_bytes)),
      decoding_(device, options.codec_budget_bytes) {}

ItemCodes::~ItemCodes() { FreeBuffer(); }

void ItemCodes::Release() {
  encoding_.Free();
  decoding_.Free();
  FreeBuffer();
  feed_.reset();
  feed_asked_ = false;
}

void ItemCodes::FreeBuffer() {
  // In a dead context this fails, and its memory ends with the process.
  if (buffer_ != nullptr && device_.MakeCurrent() == kSuccess) driver_.cuMemFreeHost(buffer_);
  buffer_ = nullptr;
}

int ItemCodes::Prepare(CodeWork& work) {
  CodeMeans means;
  means.direction = work.direction;
  means.budget_bytes = workspace(work.direction).budget_bytes();
  means.staging_budget_bytes = staging_budget_bytes_;
  means.buffer_bytes = kBufferBytes;
  means.inside = work.inside;
  if (const nvcomp::Functions* nvcomp = nvcomp::Library::Instance().functions();
      nvcomp != nullptr && !ans_)
    ans_.emplace(*nvcomp);
  // What it encodes is summed by a kernel.
  const bool sums = sums_ != nullptr || work.direction == CodeDirection::kDecode;
  means.ans = ans_ && sums ? &*ans_ : nullptr;
  bool asked[CodeKernels::kPrograms] = {};
  for (const CodeStep& step : work.steps) {
    const size_t program = CodeKernels::ProgramOf(step.item->coding);
    if (program == CodeKernels::kPrograms || asked[program]) continue;
    asked[program] = true;
    means.programs[program] = sums_ != nullptr && device_.LoadCodeKernel(program) != nullptr;
  }
  if (const int planned = PlanCodes(work.steps, means, &work.batches); planned != 0) return planned;
  const auto on_device = [](const CodeBatch& batch) { return batch.on_device(); };
  if (!feed_asked_ && std::any_of(work.batches.begin(), work.batches.end(), on_device)) {
    feed_asked_ = true;
    try {
      feed_.emplace(device_);
    } catch (const SystemError&) {
      // Without it heads come by the stream itself.
    }
  }
  const bool here = !std::all_of(work.batches.begin(), work.batches.end(), on_device);
  if (here && buffer_ == nullptr) {
    void* memory = nullptr;
    const Result made = driver_.cuMemHostAlloc(&memory, kBufferBytes, kHostPortable | kHostMapped);
    device_.Note(made);
    if (made != kSuccess) return -ENOMEM;
    buffer_ = static_cast<std::byte*>(memory);
  }
  if (work.direction == CodeDirection::kDecode || work.inside) return 0;
  const auto fit = std::count_if(work.steps.begin(), work.steps.end(), [](const CodeStep& step) {
    return step.stored >= step.item->bytes;
  });
  work.raw.reserve(static_cast<size_t>(fit));
  work.raw_runs.reserve(static_cast<size_t>(fit));
  return 0;
}

Result ItemCodes::Hold(const CodeWork& work, const CodeBatch& batch, bool idle) {
  // What the processor decodes is read now: what writes it has to be over.
  const bool here = work.direction == CodeDirection::kEncode || idle;
  if (!batch.on_device()) return buffer_lent_ || !here ? kNotReady : kSuccess;
  CodeWorkspace& space = workspace(work.direction);
  if (batch.units == 0 || space.Has(batch.arena_bytes)) return kSuccess;
  return idle ? space.Hold(batch.arena_bytes) : kNotReady;
}

DeviceAddress ItemCodes::BaseOf(const CodeWork& work, const CodeBatch& batch) const {
  return batch.on_device() ? workspace(work.direction).address()
                           : reinterpret_cast<DeviceAddress>(buffer_);
}

std::span<std::byte> ItemCodes::Reserve(const CodeBatch& batch) {
  if (batch.ans)
    return arena_.Reserve(AnsArrays::Bytes(batch.units), AnsArrays::Bytes(batch.units));
  const size_t bytes = batch.runs_offset() + batch.count * sizeof(Crc32Run);
  return arena_.Reserve(bytes, bytes);
}

Result ItemCodes::Launch(StreamPointer stream, std::span<std::byte> room, const CodeWork& work,
                         CodeBatch& batch) {
  if (batch.ans) return LaunchAns(stream, room, work, batch);
  const bool encodes = work.direction == CodeDirection::kEncode;
  const DeviceAddress space = workspace(work.direction).address();
  const auto count = static_cast<uint32_t>(batch.count);
  auto* items = reinterpret_cast<CodeItem*>(room.data());
  auto* flags = reinterpret_cast<uint32_t*>(items + count);
  uint64_t runs = 0, summed = 0;
  for (uint32_t i = 0; i < count; ++i) {
    items[i] = batch.items[i];
    const bool coded = items[i].stored != 0;
    if (!work.inside) items[i].coded += space;
    flags[i] = coded ? 0 : 1;
    flags[count + i] = 0;
    if (!encodes || !SumsApart(items[i])) continue;
    ++runs;
    summed += items[i].stored;
  }
  if (batch.powers > 0)
    std::copy_n(Fp8Powers().begin(), batch.powers, flags + 2 * static_cast<size_t>(count));
  Crc32Runs sums(reinterpret_cast<Crc32Run*>(room.data() + batch.runs_offset()), runs, summed,
                 runs > 0 ? sums_->warps() : 1);
  for (uint32_t i = 0; i < count && runs > 0; ++i)
    if (SumsApart(items[i])) sums.Add(WholeOf(items[i].coded, items[i].stored), i);
  const size_t bytes = batch.runs_offset() + sums.count() * sizeof(Crc32Run);
  arena_.Commit(bytes);
  Result result = BringHead(stream, room.first(bytes), space, &batch.head);
  if (result != kSuccess) return result;
  const CodeKernel& kernel = *device_.LoadCodeKernel(batch.program);
  const uint32_t blocks = device_.multiprocessors() * kCodeBlocks;
  result = encodes
               ? kernel.Encode(stream, batch.head, count, batch.units, batch.flags_at(), blocks)
               : kernel.Decode(stream, batch.head, count, batch.units, batch.flags_at(), blocks);
  if (result == kSuccess && sums.count() > 0)
    result = sums_->Launch(stream, batch.runs_at(), sums, batch.sums_at());
  if (feed_) feed_->Used(stream, batch.head);
  return result;
}

Result ItemCodes::BringHead(StreamPointer stream, std::span<const std::byte> head,
                            DeviceAddress own, DeviceAddress* at) {
  *at = 0;
  if (feed_ && driver_.cuStreamQuery(stream) == kNotReady)
    *at = feed_->Bring(stream, head.data(), head.size());
  if (*at != 0) return kSuccess;
  *at = own;
  return driver_.cuMemcpyHtoDAsync(own, head.data(), head.size(), stream);
}

std::span<std::byte> ItemCodes::ReserveWords(const CodeBatch& batch) {
  const size_t bytes = batch.count * 2 * sizeof(uint32_t);
  return arena_.Reserve(bytes, bytes);
}

Result ItemCodes::Return(StreamPointer stream, std::span<std::byte> room, const CodeWork& work,
                         const CodeBatch& batch) {
  arena_.Commit(room.size());
  const size_t words = work.direction == CodeDirection::kEncode ? 2 : 1;
  const Result result = driver_.cuMemcpyDtoHAsync(room.data(), batch.flags_at(),
                                                  batch.count * words * sizeof(uint32_t), stream);
  if (feed_) feed_->Used(stream, batch.flags_at());
  return result;
}

void ItemCodes::Expect(uint32_t fence, std::span<const std::byte> room, CodeWork& work,
                       size_t batch) {
  CodeBatch& expected = work.batches[batch];
  const bool by_nvcomp = expected.ans && work.direction == CodeDirection::kDecode;
  const auto* words = by_nvcomp ? nullptr : reinterpret_cast<const uint32_t*>(room.data());
  const AnsArrays arrays = by_nvcomp ? AnsArrays::In(room, expected.units) : AnsArrays{};
  pending_.push_back({fence, words, arrays, &work, &expected});
  if (!expected.on_device())
    buffer_lent_ = true;
  else if (!room.empty())
    workspace(work.direction).Lend(expected.arena_bytes);
}

void ItemCodes::Collect(const Fences& fences, std::span<uint32_t> results) {
  for (; !pending_.empty() && fences.HasPassed(pending_.front().fence); pending_.pop_front()) {
    const Pending& pending = pending_.front();
    if (!pending.batch->on_device()) {
      if (pending.work->direction == CodeDirection::kEncode) EncodeHere(pending, results);
      buffer_lent_ = false;
      continue;
    }
    if (pending.words != nullptr || pending.arrays.at != nullptr)
      workspace(pending.work->direction).TakeBack(pending.batch->arena_bytes);
    const bool encodes = pending.work->direction == CodeDirection::kEncode;
    if (pending.arrays.at != nullptr && encodes)
      CollectSizes(pending);
    else if (pending.arrays.at != nullptr)
      CollectAnsDecoded(pending, results);
    else if (encodes)
      CollectEncoded(pending, results);
    else
      CollectDecoded(pending, results);
  }
}

void ItemCodes::CollectEncoded(const Pending& pending, std::span<uint32_t> results) {
  CodeWork& work = *pending.work;
  const size_t count = pending.batch->count;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = pending.batch->first + i;
    const CodeStep& step = work.steps[at];
    const uint32_t stored = pending.batch->items[i].stored;
    const bool coded = pending.words != nullptr && stored != 0 && pending.words[i] == 0;
    // What nvCOMP wrote ends where it ends; kernels write the zeroes behind theirs.
    if (coded && pending.batch->ans && !work.inside)
      std::memset(step.coded + stored, 0, AlignCoded(stored) - stored);
    if (!coded) pending.batch->items[i].stored = 0;
    if (!coded && !work.inside && step.stored >= step.item->bytes)
      work.raw.push_back(static_cast<uint32_t>(at));
    if (results.empty()) continue;
    const size_t place = work.result_base + 2 * at;
    results[place] = coded ? stored : 0;
    results[place + 1] = coded ? Crc32FromRemainder(pending.words[count + i], stored) : 0;
  }
}

void ItemCodes::CollectDecoded(const Pending& pending, std::span<uint32_t> results) {
  if (results.empty()) return;
  for (size_t i = 0; i < pending.batch->count; ++i)
    results[pending.work->result_base + pending.batch->first + i] =
        pending.words == nullptr || pending.words[i] != 0 ? 1 : 0;
}

void ItemCodes::EncodeHere(const Pending& pending, std::span<uint32_t> results) {
  const CodeWork& work = *pending.work;
  uint64_t at = 0;
  for (size_t i = pending.batch->first; i < pending.batch->first + pending.batch->count; ++i) {
    const CodeStep& step = work.steps[i];
    const StoredItem stored =
        StoreItem(step.item->coding, buffer_ + at, step.item->bytes, step.coded, step.stored);
    at = AlignCoded(at + step.item->bytes);
    if (results.empty()) continue;
    results[work.result_base + 2 * i] = static_cast<uint32_t>(stored.bytes);
    results[work.result_base + 2 * i + 1] = stored.crc32;
  }
}

void ItemCodes::DecodeHere(const CodeWork& work, const CodeBatch& batch,
                           std::span<uint32_t> results) {
  uint64_t at = 0;
  for (size_t i = batch.first; i < batch.first + batch.count; ++i) {
    const CodeStep& step = work.steps[i];
    const bool sound =
        DecodeItem(step.item->coding, step.coded, step.stored, buffer_ + at, step.item->bytes);
    at = AlignCoded(at + step.item->bytes);
    if (!results.empty()) results[work.result_base + i] = sound ? 0 : 1;
  }
}

CodecWorkspace ItemCodes::report() const {
  return {encoding_.reserved_bytes() + decoding_.reserved_bytes(),
          encoding_.held_bytes() + decoding_.held_bytes(),
          encoding_.allocations() + decoding_.allocations()};
}

}  // namespace orbitkv::cuda
