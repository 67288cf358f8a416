#pragma once

#include <cstdint>
#include <vector>

#include "cuda/kernels.h"
#include "device/jobs.h"
#include "device/stream.h"

/// What a job becomes before a device sees it. Nothing here touches one.
namespace orbitkv::cuda {

/// Where the two ends of a job's runs are.
enum class Way { kToDevice, kFromDevice, kInside };

/// Runs of a copy job in its order, neighbours that adjoin on both sides made one; source 0 for
/// padding to be zeroed. Addresses are those of the host for a pool of the host, whose padding is
/// zeroed here and now.
std::vector<Tile> PlanCopy(const CopyJob& job, CopyDirection direction);
std::vector<Tile> PlanMoves(const MoveJob& job);

/// Shape of a job, for the choice.
struct Shape {
  Way way;
  uint64_t runs;
  uint64_t bytes;
  uint64_t longest;
  bool zeroes;
};
Shape ShapeOf(const std::vector<Tile>& runs, Way way);

/// kDirect or kKernel: what is asked, or, for kAuto, what the table says.
Transfer Choose(Transfer asked, const Shape& shape, bool kernels);

/// How a job inside the device is cut: tiles of at most slices * slice_bytes.
struct Slicing {
  uint32_t slices;
  uint32_t slice_bytes;
};
/// For a job of this shape whose longest run has `longest` bytes, so that `warps` warps all have
/// something to do and none has much; `slice_bytes` fixes it unless 0.
Slicing SliceFor(uint64_t bytes, uint64_t longest, uint64_t warps, uint64_t slice_bytes);

/// How many pieces a checksum has; each has at most Crc32Piece::kBytesMax bytes.
uint64_t PieceCount(const ChecksumStep& step);
/// Bytes that a checksum covers.
uint64_t CoveredBytes(const ChecksumStep& step);
/// Writes the pieces of a checksum whose remainder goes to results[result].
void WritePieces(const ChecksumStep& step, uint32_t result, Crc32Piece* pieces);
/// The weight of lane `lane` within a full piece.
uint32_t LaneWeight(uint32_t lane);

}  // namespace orbitkv::cuda
