#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace orbitkv {

/// Number of a device: its ordinal, or this for memory that the processor reaches.
inline constexpr int32_t kHostDevice = -1;

/// Engine memory of this process, writable: shared memory mapped here and unmapped when the last
/// holder lets go, memory lent by its owner, who is told by the end of this object, or device
/// memory, which only streams of that device may touch. Holders are the registry (until release),
/// views, and every queued or running copy that names it.
class Mapping {
 public:
  /// Maps a descriptor that a peer passed; the descriptor stays the caller's. Throws SystemError
  /// (see SealedBytes).
  static std::shared_ptr<Mapping> Import(int fd);

  /// Maps the first `bytes` of a memfd of our own. Throws SystemError.
  static std::shared_ptr<Mapping> Map(int fd, uint64_t bytes);

  /// Takes over what mmap() gave: unmapped with the object, or now when there is no memory for it.
  static std::shared_ptr<Mapping> Own(std::byte* base, uint64_t bytes);

  /// Memory that somebody else owns and keeps in place while this object lives.
  static std::shared_ptr<Mapping> Lend(std::byte* base, uint64_t bytes);

  /// Device memory at address `base` of device `device`; `backing` keeps it there.
  static std::shared_ptr<Mapping> OnDevice(std::byte* base, uint64_t bytes, int32_t device,
                                           std::shared_ptr<const void> backing);

  enum class Owner { kUs, kLender };
  Mapping(std::byte* base, uint64_t bytes, Owner owner = Owner::kUs);
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  std::byte* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  /// kHostDevice, or the ordinal of the device that the memory is on: then `base` is an address
  /// there.
  int32_t device() const { return device_; }

  /// True when [offset, offset + bytes) lies inside.
  bool Contains(uint64_t offset, uint64_t bytes) const {
    return bytes <= bytes_ && offset <= bytes_ - bytes;
  }

 private:
  std::byte* base_;
  uint64_t bytes_;
  Owner owner_;
  int32_t device_ = kHostDevice;
  std::shared_ptr<const void> backing_;
};

}  // namespace orbitkv
