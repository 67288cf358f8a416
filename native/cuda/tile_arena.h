#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/driver.h"

namespace orbitkv::cuda {

/// Pinned memory that the device reaches: one word for fences, then a ring of descriptors, which
/// belong to the device until the fence behind them has passed.
class TileArena {
 public:
  /// All descriptors of a stream that are in flight: 170,000 tiles.
  static constexpr size_t kBytes = size_t{4} << 20;
  /// One region at most; so several pieces are in flight.
  static constexpr size_t kRegionBytesMax = size_t{1} << 20;

  /// The context is current. Throws SystemError.
  explicit TileArena(const Driver& driver);
  TileArena(const TileArena&) = delete;
  TileArena& operator=(const TileArena&) = delete;
  ~TileArena();

  /// Room at the head: at least `least` bytes and at most `most`, 128-byte aligned; empty when
  /// there is none now.
  std::span<std::byte> Reserve(size_t least, size_t most);
  /// Keeps the first `bytes` of what Reserve() returned last.
  void Commit(size_t bytes);
  /// Where the head is; what lies before it is free again after Release(it).
  uint64_t head() const { return head_; }
  void Release(uint64_t end) { tail_ = end; }

  DeviceAddress AddressOf(const void* pointer) const {
    return device_ + static_cast<uint64_t>(static_cast<const std::byte*>(pointer) - host_);
  }
  /// Of a region, among the kBytes of the ring.
  uint64_t OffsetOf(const void* region) const {
    return static_cast<uint64_t>(static_cast<const std::byte*>(region) - host_) - kWordBytes;
  }
  uint32_t* word() const { return reinterpret_cast<uint32_t*>(host_); }

 private:
  static constexpr size_t kWordBytes = 128;

  const Driver& driver_;
  std::byte* host_ = nullptr;
  DeviceAddress device_ = 0;
  uint64_t head_ = 0;  // both only grow; taken modulo kBytes
  uint64_t tail_ = 0;
};

}  // namespace orbitkv::cuda
