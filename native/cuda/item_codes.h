#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/fixed_ring.h"
#include "cuda/code_feed.h"
#include "cuda/code_plan.h"
#include "cuda/code_workspace.h"
#include "cuda/cuda_device.h"
#include "cuda/fences.h"
#include "cuda/run_sums.h"
#include "cuda/tile_arena.h"
#include "device/stream.h"

namespace orbitkv::cuda {

/// A job of codings, from its acceptance on; nothing of it grows later.
struct CodeWork {
  CodeDirection direction = CodeDirection::kEncode;
  std::vector<CodeStep> steps;
  std::vector<CodeBatch> batches;
  size_t result_base = 0;
  bool inside = false;
  /// The workspace is held when it has ended (CodeHold).
  bool held = false;

  /// How far it was handed to the device: the batch, and what was done of it.
  enum class Stage { kHold, kCode, kSizes, kSum, kMove, kSeal };
  size_t next = 0;
  Stage stage = Stage::kHold;
  /// While lengths of a batch are awaited: when they are expected, as MonotonicUs().
  int64_t sizes_due_us = 0;
  /// Of the batch of ANS that is decoded.
  std::span<const std::byte> arrays;

  /// Steps that have no coding and room for themselves, which go as they are when all else ended;
  /// then their checksums are computed, from `raw_next` on.
  std::vector<uint32_t> raw;
  std::vector<Tile> raw_runs;
  bool raw_moved = false;
  size_t raw_next = 0;
};

/// The codings of one stream: the memory that they need, their launches, and what came of them.
/// Nothing but the making and Prepare() allocates memory of the host or throws.
class ItemCodes {
 public:
  /// Of the processor, where the device has no room: one buffer of pinned memory.
  static constexpr uint64_t kBufferBytes = uint64_t{16} << 20;

  /// `sums` is null where there are no kernels: then the processor codes alone.
  ItemCodes(CudaDevice& device, RunSums* sums, TileArena& arena, const StreamOptions& options);
  ItemCodes(const ItemCodes&) = delete;
  ItemCodes& operator=(const ItemCodes&) = delete;
  ~ItemCodes();

  /// Cuts a job into batches, and gets what they need but for device memory. 0, or -errno that the
  /// job is to end with. Entered. Throws std::bad_alloc.
  int Prepare(CodeWork& work);

  /// Whether the memory of a batch is there, or is made now; the stream is idle when `idle` says
  /// so, and nothing is released before. kNotReady: later; else what the driver says.
  Result Hold(const CodeWork& work, const CodeBatch& batch, bool idle);
  /// Where the workspace, or the processor's buffer, is: what offsets of a batch are added to.
  DeviceAddress BaseOf(const CodeWork& work, const CodeBatch& batch) const;

  /// Room for the descriptors of a batch; empty when there is none now.
  std::span<std::byte> Reserve(const CodeBatch& batch);
  /// Queues a batch's kernels: codings, and their checksums when they are made.
  Result Launch(StreamPointer stream, std::span<std::byte> room, const CodeWork& work,
                CodeBatch& batch);

  /// ANS that was encoded is behind this fence: its lengths come to `room`, which Reserve() gave.
  void ExpectSizes(uint32_t fence, std::span<const std::byte> room, CodeWork& work, size_t batch);
  /// Gives a batch whose lengths are known its runs, from the workspace to the pool; none where no
  /// coding is kept. Where the pool is on the device, with zeroes behind them.
  void PlanRuns(const CodeWork& work, CodeBatch& batch) const;
  /// Room for the sums of a batch whose lengths are known; empty when there is none now.
  std::span<std::byte> ReserveSums(const CodeBatch& batch);
  /// Queues them.
  Result LaunchSums(StreamPointer stream, std::span<std::byte> room, const CodeWork& work,
                    CodeBatch& batch);

  /// Room for what the device says of a batch; empty when there is none now.
  std::span<std::byte> ReserveWords(const CodeBatch& batch);
  /// Queues its return. What a batch of the processor needs none for has no room.
  Result Return(StreamPointer stream, std::span<std::byte> room, const CodeWork& work,
                const CodeBatch& batch);
  /// The batch stands before this fence, in full, and its words come to `room`.
  void Expect(uint32_t fence, std::span<const std::byte> room, CodeWork& work, size_t batch);

  /// Decodes a batch of the processor's into its buffer, which Hold() has found free.
  void DecodeHere(const CodeWork& work, const CodeBatch& batch, std::span<uint32_t> results);

  /// Whether everything that was expected has been collected.
  bool idle() const { return pending_.empty(); }
  /// Takes what stands before fences that have passed; an empty `results` says nothing to anybody.
  void Collect(const Fences& fences, std::span<uint32_t> results);
  void Forget() { pending_.clear(); }

  CodeWorkspace& encoding() { return encoding_; }

  /// Gives both arenas and the buffer back; no batch is in flight. What comes later gets them anew.
  void Release();
  /// As CODEC_WORKSPACE in src/binding/codecs.ts, of both directions.
  CodecWorkspace report() const;

 private:
  struct Pending {
    uint32_t fence = 0;
    const uint32_t* words = nullptr;
    /// Of ANS, in the place of words: what nvCOMP says.
    AnsArrays arrays;
    CodeWork* work = nullptr;
    CodeBatch* batch = nullptr;
  };

  CodeWorkspace& workspace(CodeDirection direction) {
    return direction == CodeDirection::kEncode ? encoding_ : decoding_;
  }
  const CodeWorkspace& workspace(CodeDirection direction) const {
    return direction == CodeDirection::kEncode ? encoding_ : decoding_;
  }
  Result LaunchAns(StreamPointer stream, std::span<std::byte> room, const CodeWork& work,
                   const CodeBatch& batch);
  /// Brings the head of a batch to the device, and says where it is there: in a place of the feed
  /// while the stream is busy, else at `own` by the stream itself.
  Result BringHead(StreamPointer stream, std::span<const std::byte> head, DeviceAddress own,
                   DeviceAddress* at);
  void CollectSizes(const Pending& pending);
  void CollectAnsDecoded(const Pending& pending, std::span<uint32_t> results);
  void CollectEncoded(const Pending& pending, std::span<uint32_t> results);
  void CollectDecoded(const Pending& pending, std::span<uint32_t> results);
  void EncodeHere(const Pending& pending, std::span<uint32_t> results);
  void FreeBuffer();

  CudaDevice& device_;
  const Driver& driver_;
  RunSums* sums_;
  TileArena& arena_;
  const std::optional<uint64_t> staging_budget_bytes_;
  CodeWorkspace encoding_;
  CodeWorkspace decoding_;
  std::byte* buffer_ = nullptr;
  bool buffer_lent_ = false;
  std::optional<AnsCodes> ans_;
  std::optional<CodeFeed> feed_;
  bool feed_asked_ = false;
  /// Arguments of one batch, which are too much for a stack.
  std::array<AnsChunk, AnsCodes::kChunksMax> chunks_;
  FixedRing<Pending, Fences::kPendingMax> pending_;
};

}  // namespace orbitkv::cuda
