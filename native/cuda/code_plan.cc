#include "cuda/code_plan.h"

#include <cerrno>

#include "cuda/checksum_pieces.h"
#include "cuda/device_sums.h"

namespace orbitkv::cuda {
namespace {

uint64_t Address(const std::byte* pointer) { return reinterpret_cast<uint64_t>(pointer); }

uint64_t CodedBytes(const CodeStep& step) {
  return StoredBytes(step.item->coding, step.item->bytes);
}

ChecksumStep WholeOf(uint64_t bytes) { return {nullptr, bytes, bytes, bytes}; }

/// One step, and what it takes.
struct Placed {
  bool coded = false;
  bool by_processor = false;
  uint64_t slot_bytes = 0;
  uint32_t pieces = 0;
};

/// False: it cannot be had.
bool Place(const CodeStep& step, const CodeMeans& means, Placed* placed) {
  const ItemCoding& coding = step.item->coding;
  const bool encodes = means.direction == CodeDirection::kEncode;
  placed->coded = encodes ? IsWorthCoding(step) : step.stored == CodedBytes(step);
  if (!placed->coded) return true;
  const uint64_t bytes = AlignCoded(CodedBytes(step));
  placed->slot_bytes = means.inside ? 0 : bytes;
  placed->pieces = static_cast<uint32_t>(PieceCount(WholeOf(CodedBytes(step))));
  const size_t program = CodeKernels::ProgramOf(coding);
  const bool room = CodeBatch::kHeadBytes + placed->slot_bytes <= means.budget_bytes;
  if (program < CodeKernels::kPrograms && means.programs[program] && room &&
      placed->pieces <= DeviceSums::kPiecesMax)
    return true;
  placed->by_processor = encodes && !means.inside && coding.format == ItemFormat::kFp8 &&
                         step.item->bytes <= means.buffer_bytes;
  // What has no means of being encoded stays what it is.
  if (encodes && !placed->by_processor) *placed = {};
  return encodes;
}

/// Whether a step goes into the batch with those before it.
bool Joins(const CodeBatch& batch, const CodeStep& step, const Placed& placed,
           const CodeMeans& means) {
  if (batch.count == kCodeItemsMax || batch.on_device() == placed.by_processor) return false;
  const size_t program = CodeKernels::ProgramOf(step.item->coding);
  if (batch.on_device())
    return (!placed.coded || batch.program == program || batch.units == 0) &&
           batch.arena_bytes + placed.slot_bytes <= means.budget_bytes &&
           batch.pieces + placed.pieces <= DeviceSums::kPiecesMax;
  const Tile& last = batch.runs.back();
  return last.target + last.bytes + kCodedAlign + step.item->bytes <= means.buffer_bytes;
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
  batch.units += UnitCount(coding, step.item->bytes);
  batch.arena_bytes += placed.slot_bytes;
  if (encodes) batch.pieces += placed.pieces;
  if (means.inside) return;
  if (encodes)
    batch.runs.push_back({Address(step.coded), at, AlignCoded(stored)});
  else
    batch.runs.push_back({at, Address(step.coded), stored});
}

void AddToProcessor(CodeBatch& batch, const CodeStep& step) {
  const Tile none{};
  const Tile& last = batch.runs.empty() ? none : batch.runs.back();
  batch.runs.push_back({AlignCoded(last.target + last.bytes), Address(step.page), step.item->bytes});
}

}  // namespace

bool IsWorthCoding(const CodeStep& step) {
  const uint64_t stored = CodedBytes(step);
  return stored <= step.stored && SavesEnough(stored, step.item->bytes);
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
    }
    CodeBatch& batch = batches->back();
    ++batch.count;
    if (placed.by_processor)
      AddToProcessor(batch, steps[i]);
    else
      AddToDevice(batch, steps[i], placed, means);
  }
  return 0;
}

}  // namespace orbitkv::cuda
