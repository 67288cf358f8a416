#include "cuda/runs.h"

#include <algorithm>
#include <cstring>

namespace orbitkv::cuda {
namespace {

uint64_t Address(const std::byte* pointer) { return reinterpret_cast<uint64_t>(pointer); }

void Append(std::vector<Tile>& runs, Tile run) {
  if (run.bytes == 0) return;
  if (!runs.empty()) {
    Tile& last = runs.back();
    const bool target = last.target + last.bytes == run.target;
    const bool source = run.source == 0
                            ? last.source == 0
                            : last.source != 0 && last.source + last.bytes == run.source;
    if (target && source) {
      last.bytes += run.bytes;
      return;
    }
  }
  runs.push_back(run);
}

}  // namespace

std::vector<Tile> PlanCopy(const CopyJob& job, CopyDirection direction) {
  std::vector<Tile> runs;
  const bool host = job.pool->device() == kHostDevice;
  for (const CopyStep& step : job.steps) {
    for (const TemplateItem& item : step.items) {
      std::byte* page = item.Page(step.page);
      std::byte* granule = step.granule + item.granule_offset_bytes;
      if (direction == CopyDirection::kPoolToPages) {
        Append(runs, {Address(page), Address(granule), item.bytes});
        continue;
      }
      Append(runs, {Address(granule), Address(page), item.bytes});
      const uint64_t padding = item.padded_bytes - item.bytes;
      if (padding == 0) continue;
      if (host)
        std::memset(granule + item.bytes, 0, padding);
      else
        Append(runs, {Address(granule + item.bytes), 0, padding});
    }
  }
  return runs;
}

std::vector<Tile> PlanMoves(const MoveJob& job) {
  std::vector<Tile> runs;
  for (const MoveStep& step : job.steps)
    Append(runs, {Address(step.target), Address(step.source), step.bytes});
  return runs;
}

std::span<const Tile> RunCursor::Take(size_t most) {
  const size_t count = std::min(most, left());
  next_ += count;
  return std::span<const Tile>(runs_).subspan(next_ - count, count);
}

uint32_t RunCursor::Cut(const Cutting& cutting, const Shift& shift, std::span<Tile> tiles) {
  uint32_t count = 0;
  for (; !done() && count < tiles.size(); ++count) {
    const Tile& run = runs_[next_];
    const uint64_t left = run.bytes - offset_;
    const uint64_t bytes = left <= cutting.last_bytes_max ? left : cutting.tile_bytes;
    tiles[count] = {run.target + offset_ + shift.target,
                    run.source == 0 ? 0 : run.source + offset_ + shift.source, bytes};
    offset_ += bytes;
    if (offset_ < run.bytes) continue;
    offset_ = 0;
    ++next_;
  }
  return count;
}

}  // namespace orbitkv::cuda
