#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cuda/ans_codes.h"
#include "cuda/code_items.h"
#include "cuda/code_kernels.h"
#include "cuda/crc32_runs.h"
#include "cuda/runs.h"
#include "device/jobs.h"

/// What a job of codings becomes before a device sees it. Nothing here touches one.
namespace orbitkv::cuda {

/// What a batch needs of the workspace, from its start; all in front of `temp` is its head, which
/// may be brought elsewhere:
///
///   items      48 bytes each (CodeItem)
///   flags      4 bytes each: it has no coding
///   sums       4 bytes each: the remainder of its coded bytes
///   powers     4 bytes each, that FP8 sums with
///   runs       24 bytes each (Crc32Run): codings that their kernel has not summed
///   temp       nvCOMP's, of a batch of ANS
///   codings    each from a multiple of 512 on, unless they are made or read in a pool on the
///   device
struct CodeBatch {
  size_t first = 0;  // of the job's steps
  size_t count = 0;
  /// The program that codes it; CodeKernels::kPrograms when the processor or nvCOMP does.
  size_t program = CodeKernels::kPrograms;
  uint32_t units = 0;
  /// Bytes in the workspace; 0 when the processor codes it.
  uint64_t arena_bytes = 0;
  /// `page` and `coded` as they are, or offsets in the workspace where the codings are there.
  std::vector<CodeItem> items;
  /// Of a batch that nvCOMP codes; then its codings have no length before they are made, and items
  /// have their own until then.
  std::optional<AnsCodes::Type> ans;
  uint64_t temp_bytes = 0;
  uint32_t chunks_max = 0;
  /// The longest of its chunks; and where it is encoded, the room of each, which nvCOMP wants to be
  /// that of the longest.
  uint64_t chunk_bytes_max = 0;
  uint64_t chunk_room_bytes = 0;
  /// Lengths are known, of ANS that is encoded.
  bool sized = false;
  /// Where the head is on the device.
  DeviceAddress head = 0;
  /// How many powers of x FP8 sums with.
  uint32_t powers = 0;
  /// Between workspace and pool; of a batch that the processor codes, between pages and its buffer.
  /// The end that is not the pool's or a page's is an offset.
  std::vector<Tile> runs;
  /// Of the processor's buffer that are used.
  uint64_t buffer_bytes = 0;

  static constexpr uint64_t kItemBytes = sizeof(CodeItem) + 2 * sizeof(uint32_t);
  /// Bytes in front of the codings.
  static constexpr uint64_t kHeadBytes =
      AlignCoded(kCodeItemsMax * (kItemBytes + sizeof(Crc32Run)) +
                 (kFp8LanePowers + kFp8StepPowersMax) * sizeof(uint32_t));
  DeviceAddress flags_at() const { return head + count * sizeof(CodeItem); }
  DeviceAddress sums_at() const { return flags_at() + count * sizeof(uint32_t); }
  DeviceAddress runs_at() const { return head + runs_offset(); }
  uint64_t runs_offset() const {
    return (count * kItemBytes + powers * sizeof(uint32_t) + alignof(Crc32Run) - 1) /
           alignof(Crc32Run) * alignof(Crc32Run);
  }
  DeviceAddress TempAt(DeviceAddress arena) const { return arena + kHeadBytes; }
  bool on_device() const { return arena_bytes != 0; }
};

/// What there is to code with.
struct CodeMeans {
  CodeDirection direction = CodeDirection::kEncode;
  uint64_t budget_bytes = 0;
  /// When encoding: of the streams of staging slots, where what is encoded may be decoded too;
  /// nothing where there are none.
  std::optional<uint64_t> staging_budget_bytes;
  /// Of the processor's buffer.
  uint64_t buffer_bytes = 0;
  /// The pool is on the device: codings are made and read where they are.
  bool inside = false;
  /// Programs that work.
  bool programs[CodeKernels::kPrograms] = {};
  /// Null where nvCOMP is not open.
  AnsCodes* ans = nullptr;
};

/// Where a coding of ANS is decoded: in the pool, or in the workspace.
constexpr bool DecodesInPlace(const CodeStep& step, bool inside) {
  return inside && reinterpret_cast<uint64_t>(step.coded) % nvcomp::abi::kAlignmentBytes == 0;
}

/// Whether an item may be stored as its coding, for what is known before that is made.
bool IsWorthCoding(const CodeStep& step);
/// Whether every stream that may have to decode an item, when it is encoded now, has room for that:
/// one with the budget of this stream, and those of staging slots. The budgets of a Manager stay
/// what they are, so that what is stored can always be restored, as long as the driver gives
/// memory.
bool CanBeDecoded(const CodeStep& step, const CodeMeans& means);
/// Cuts a job into batches, in its order; of neighbours that one program codes, at most
/// kCodeItemsMax together. An item that is not worth coding,
/// or that could not be decoded again, or whose bytes are too few or too many
/// to be its coding, is in a batch with no units. -ENOMEM: one has no place within the budget.
int PlanCodes(std::span<const CodeStep> steps, const CodeMeans& means,
              std::vector<CodeBatch>* batches);

}  // namespace orbitkv::cuda
