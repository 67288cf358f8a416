#include "cuda/tile_arena.h"

#include <algorithm>
#include <cstring>

namespace orbitkv::cuda {
namespace {

constexpr size_t kAlign = 128;

size_t Up(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

}  // namespace

TileArena::TileArena(const Driver& driver) : driver_(driver) {
  void* memory = nullptr;
  driver.Require(driver.cuMemHostAlloc(&memory, kWordBytes + kBytes, kHostPortable | kHostMapped),
                 "Cannot allocate pinned memory for descriptors");
  host_ = static_cast<std::byte*>(memory);
  std::memset(host_, 0, kWordBytes);
  const Result mapped = driver.cuMemHostGetDevicePointer(&device_, memory, 0);
  if (mapped != kSuccess) driver.cuMemFreeHost(memory);
  driver.Require(mapped, "Cannot map pinned memory for descriptors");
}

TileArena::~TileArena() { driver_.cuMemFreeHost(host_); }

std::span<std::byte> TileArena::Reserve(size_t least, size_t most) {
  least = Up(least);
  most = std::min(Up(most), kRegionBytesMax);
  const size_t at = head_ % kBytes;
  const size_t to_end = kBytes - at;
  const size_t free = kBytes - (head_ - tail_);
  if (const size_t here = std::min({to_end, free, most}); here >= least)
    return {host_ + kWordBytes + at, here};
  // The rest up to the end is skipped; it is free again with what follows.
  if (free < to_end || free - to_end < least) return {};
  head_ += to_end;
  return {host_ + kWordBytes, std::min(free - to_end, most)};
}

void TileArena::Commit(size_t bytes) { head_ += Up(bytes); }

}  // namespace orbitkv::cuda
