#include "cuda/code_plan.h"

#include <algorithm>
#include <cerrno>

namespace orbitkv::cuda {
namespace {

uint64_t Address(const std::byte* pointer) { return reinterpret_cast<uint64_t>(pointer); }

uint64_t CodedBytes(const CodeStep& step) {
  return StoredBytes(step.item->coding, step.item->bytes);
}

AnsCodes::Type TypeOf(const ItemCoding& coding) {
  if (coding.scalar == ItemScalar::kE4m3) return AnsCodes::Type::kFloat8E4m3;
  return coding.scalar == ItemScalar::kBytes ? AnsCodes::Type::kBytes : AnsCodes::Type::kFloat16;
}

/// One step, and what it takes.
struct Placed {
  bool coded = false;
  bool by_processor = false;
  std::optional<AnsCodes::Type> ans;
  uint64_t slot_bytes = 0;
};

uint64_t TempBytes(const CodeMeans& means, AnsCodes::Type type, size_t count, uint64_t longest) {
  const uint64_t bytes = means.direction == CodeDirection::kEncode
                             ? means.ans->EncodeTempBytes(type, count, longest)
                             : means.ans->DecodeTempBytes(type, count, longest);
  return bytes == AnsCodes::kRefused ? bytes : AlignCoded(bytes);
}

/// As Place, of ANS.
bool PlaceAns(const CodeStep& step, const CodeMeans& means, Placed* placed) {
  const bool encodes = means.direction == CodeDirection::kEncode;
  if (means.ans == nullptr) return encodes;
  if (encodes && !CanBeDecoded(step, means)) return true;
  const AnsCodes::Type type = TypeOf(step.item->coding);
  const uint64_t bytes = step.item->bytes;
  uint64_t slot = 0;
  if (encodes)
    slot = AlignCoded(means.ans->RoomBytes(type, bytes));
  else if (!DecodesInPlace(step, means.inside))
    slot = AlignCoded(step.stored);
  const uint64_t temp = TempBytes(means, type, 1, bytes);
  const bool refused = (encodes && slot == 0) || temp == AnsCodes::kRefused;
  if (refused || CodeBatch::kHeadBytes + temp + slot > means.budget_bytes) return encodes;
  placed->coded = true;
  placed->ans = type;
  placed->slot_bytes = slot;
  return true;
}

uint64_t LongestOf(std::span<const CodeStep> steps, AnsCodes::Type type) {
  uint64_t longest = 0;
  for (const CodeStep& step : steps)
    if (step.item->coding.format == ItemFormat::kAns && TypeOf(step.item->coding) == type)
      longest = std::max(longest, step.item->bytes);
  return longest;
}

/// Begins a batch of ANS with the first of `left`: as many chunks as find room beside the temporary
/// memory that so many need.
void BeginAns(CodeBatch& batch, std::span<const CodeStep> left, const Placed& placed,
              const CodeMeans& means) {
  const bool encodes = means.direction == CodeDirection::kEncode;
  const uint64_t longest = encodes ? left[0].item->bytes : LongestOf(left, *placed.ans);
  uint64_t chunks = std::min(AnsCodes::kChunksMax, left.size());
  uint64_t temp = 0;
  for (; chunks > 1; chunks /= 2) {
    temp = TempBytes(means, *placed.ans, chunks, longest);
    const uint64_t half = chunks / 2 * placed.slot_bytes;
    if (temp != AnsCodes::kRefused && CodeBatch::kHeadBytes + temp + half <= means.budget_bytes)
      break;
  }
  // One alone was found to fit.
  if (chunks == 1) temp = TempBytes(means, *placed.ans, 1, left[0].item->bytes);
  batch.ans = placed.ans;
  batch.chunk_bytes_max = longest;
  batch.chunk_room_bytes = encodes ? placed.slot_bytes : 0;
  batch.temp_bytes = temp;
  batch.chunks_max = static_cast<uint32_t>(chunks);
  batch.arena_bytes += temp;
}

/// False: it cannot be had.
bool Place(const CodeStep& step, const CodeMeans& means, Placed* placed) {
  const ItemCoding& coding = step.item->coding;
  const bool encodes = means.direction == CodeDirection::kEncode;
  if (coding.format == ItemFormat::kAns) return PlaceAns(step, means, placed);
  placed->coded =
      encodes ? IsWorthCoding(step) && CanBeDecoded(step, means) : step.stored == CodedBytes(step);
  if (!placed->coded) return true;
  const uint64_t bytes = AlignCoded(CodedBytes(step));
  placed->slot_bytes = means.inside ? 0 : bytes;
  const size_t program = CodeKernels::ProgramOf(coding);
  const bool room = CodeBatch::kHeadBytes + placed->slot_bytes <= means.budget_bytes;
  if (program < CodeKernels::kPrograms && means.programs[program] && room) return true;
  placed->by_processor =
      !means.inside && coding.format == ItemFormat::kFp8 && step.item->bytes <= means.buffer_bytes;
  if (placed->by_processor) return true;
  // What has no means of being encoded stays what it is.
  if (encodes) *placed = {};
  return encodes;
}

/// Whether a step goes into the batch with those before it.
bool Joins(const CodeBatch& batch, const CodeStep& step, const Placed& placed,
           const CodeMeans& means) {
  if (batch.count == kCodeItemsMax || batch.on_device() == placed.by_processor) return false;
  const size_t program = CodeKernels::ProgramOf(step.item->coding);
  if (batch.on_device() && placed.ans)
    return batch.ans == placed.ans && batch.units < batch.chunks_max &&
           step.item->bytes <= batch.chunk_bytes_max &&
           batch.arena_bytes + std::max(placed.slot_bytes, batch.chunk_room_bytes) <=
               means.budget_bytes;
  if (batch.on_device())
    return (!placed.coded || batch.program == program || batch.units == 0) &&
           batch.arena_bytes + placed.slot_bytes <= means.budget_bytes;
  return batch.buffer_bytes + step.item->bytes <= means.buffer_bytes;
}

void AddToDevice(CodeBatch& batch, const CodeStep& step, const Placed& placed,
                 const CodeMeans& means) {
  const ItemCoding& coding = step.item->coding;
  const uint64_t stored = placed.coded ? CodedBytes(step) : 0;
  const uint64_t at = means.inside ? Address(step.coded) : batch.arena_bytes;
  const bool encodes = means.direction == CodeDirection::kEncode;
  batch.items.push_back(DescribeItem(coding, Address(step.page), at, step.item->bytes, stored,
                                     AlignCoded(stored), batch.units));
  if (!placed.coded) return;
  batch.program = CodeKernels::ProgramOf(coding);
  batch.units += UnitCount(coding, step.item->bytes, kFp8StepBytes);
  batch.arena_bytes += placed.slot_bytes;
  if (means.inside) return;
  if (encodes)
    batch.runs.push_back({Address(step.coded), at, AlignCoded(stored)});
  else
    batch.runs.push_back({at, Address(step.coded), stored});
}

void AddAns(CodeBatch& batch, const CodeStep& step, const Placed& placed, const CodeMeans& means) {
  const bool encodes = means.direction == CodeDirection::kEncode;
  const bool in_place = !encodes && DecodesInPlace(step, means.inside);
  const uint64_t at = in_place ? Address(step.coded) : batch.arena_bytes;
  const uint64_t stored = encodes ? step.item->bytes : step.stored;
  batch.items.push_back(DescribeItem(step.item->coding, Address(step.page), at, step.item->bytes,
                                     stored, AlignCoded(stored), batch.units));
  ++batch.units;
  batch.arena_bytes += encodes ? batch.chunk_room_bytes : placed.slot_bytes;
  if (!encodes && !in_place) batch.runs.push_back({at, Address(step.coded), stored});
}

void AddToProcessor(CodeBatch& batch, const CodeStep& step, const CodeMeans& means) {
  const uint64_t page = Address(step.page);
  const uint64_t at = batch.buffer_bytes;
  if (means.direction == CodeDirection::kEncode)
    batch.runs.push_back({at, page, step.item->bytes});
  else
    batch.runs.push_back({page, at, step.item->bytes});
  batch.buffer_bytes = AlignCoded(at + step.item->bytes);
}

/// Units of FP8 are as long as leaves enough of them for a device: the longer, the less there is to
/// do for each. What its kernel sums needs no pieces.
void FinishFp8(CodeBatch& batch, const CodeMeans& means) {
  constexpr uint64_t kStepsMax = 4;
  constexpr uint64_t kUnitsWanted = 8192;
  uint64_t bytes = 0;
  for (const CodeItem& item : batch.items) bytes += item.stored == 0 ? 0 : item.bytes;
  uint32_t unit = kFp8StepBytes;
  while (unit < kStepsMax * kFp8StepBytes && bytes / unit > kUnitsWanted) unit *= 2;
  batch.units = 0;
  for (CodeItem& item : batch.items) {
    item.first_unit = batch.units;
    if (item.stored == 0) continue;
    batch.units += (item.bytes + unit - 1) / unit;
    item.unit = unit;
    if (means.direction == CodeDirection::kDecode || !IsSummable(item)) continue;
    item.unit |= kSummed;
    batch.powers = std::max(batch.powers, kFp8LanePowers + item.bytes / kFp8StepBytes);
  }
}

}  // namespace

bool IsWorthCoding(const CodeStep& step) {
  const uint64_t stored = CodedBytes(step);
  return stored <= step.stored && SavesEnough(stored, step.item->bytes);
}

bool CanBeDecoded(const CodeStep& step, const CodeMeans& means) {
  const ItemCoding& coding = step.item->coding;
  const auto& staging = means.staging_budget_bytes;
  const uint64_t least = std::min(means.budget_bytes, staging.value_or(means.budget_bytes));
  const auto fits = [](uint64_t bytes, uint64_t budget) {
    return bytes <= budget && CodeBatch::kHeadBytes <= budget - bytes;
  };
  if (coding.format ==
      ItemFormat::kFp8)  // by the processor where the device lacks room, but not in a slot
    return !staging || (fits(0, *staging) && means.programs[CodeKernels::kFp8]);
  if (coding.format != ItemFormat::kAns) return fits(AlignCoded(CodedBytes(step)), least);
  const uint64_t temp = means.ans->DecodeTempBytes(TypeOf(coding), 1, step.item->bytes);
  return temp <= least && fits(AlignCoded(temp) + KeptBytesMax(step.item->bytes), least);
}

int PlanCodes(std::span<const CodeStep> steps, const CodeMeans& means,
              std::vector<CodeBatch>* batches) {
  for (size_t i = 0; i < steps.size(); ++i) {
    Placed placed;
    if (!Place(steps[i], means, &placed)) return -ENOMEM;
    if (batches->empty() || !Joins(batches->back(), steps[i], placed, means)) {
      batches->push_back({});
      batches->back().first = i;
      if (!placed.by_processor) batches->back().arena_bytes = CodeBatch::kHeadBytes;
      if (placed.ans) BeginAns(batches->back(), steps.subspan(i), placed, means);
    }
    CodeBatch& batch = batches->back();
    ++batch.count;
    if (placed.by_processor)
      AddToProcessor(batch, steps[i], means);
    else if (placed.ans)
      AddAns(batch, steps[i], placed, means);
    else
      AddToDevice(batch, steps[i], placed, means);
  }
  for (CodeBatch& batch : *batches)
    if (batch.on_device() && batch.program == CodeKernels::kFp8) FinishFp8(batch, means);
  // Runs of ANS that is encoded are planned when nothing may be allocated any more.
  if (means.direction == CodeDirection::kEncode)
    for (CodeBatch& batch : *batches)
      if (batch.ans) batch.runs.reserve(2 * batch.count);
  return 0;
}

}  // namespace orbitkv::cuda
