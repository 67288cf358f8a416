#pragma once

#include <cstdint>
#include <span>
#include <utility>
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

/// Tiles of `tile_bytes`; the last of a run has whatever is left, up to `last_bytes_max` (at least
/// as much).
struct Cutting {
  uint64_t tile_bytes = 0;
  uint64_t last_bytes_max = 0;
};

/// What is added to the addresses of runs to get the device's.
struct Shift {
  uint64_t target = 0;
  uint64_t source = 0;
};

/// Runs of a job, and how far they have been handed out: whole to the copy engine, or cut into
/// tiles for a kernel.
class RunCursor {
 public:
  RunCursor() = default;
  explicit RunCursor(std::vector<Tile> runs) : runs_(std::move(runs)) {}

  std::span<const Tile> runs() const { return runs_; }
  bool begun() const { return next_ > 0 || offset_ > 0; }
  bool done() const { return next_ == runs_.size(); }
  /// Runs that are not handed out in full.
  size_t left() const { return runs_.size() - next_; }

  /// The next whole runs, at most `most`.
  std::span<const Tile> Take(size_t most);
  /// Fills `tiles` with the next tiles; returns how many.
  uint32_t Cut(const Cutting& cutting, const Shift& shift, std::span<Tile> tiles);

 private:
  std::vector<Tile> runs_;
  size_t next_ = 0;
  uint64_t offset_ = 0;  // bytes of the next run that are handed out
};

}  // namespace orbitkv::cuda
