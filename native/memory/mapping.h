#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace orbitkv {

/// Shared memory of this process, writable: mapped here and unmapped when the last holder lets go,
/// or lent by its owner, who is told by the end of this object. Holders are the registry (until
/// release), views, and every queued or running copy that names it.
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

  enum class Owner { kUs, kLender };
  Mapping(std::byte* base, uint64_t bytes, Owner owner = Owner::kUs);
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  std::byte* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }

  /// True when [offset, offset + bytes) lies inside.
  bool Contains(uint64_t offset, uint64_t bytes) const {
    return bytes <= bytes_ && offset <= bytes_ - bytes;
  }

 private:
  std::byte* base_;
  uint64_t bytes_;
  Owner owner_;
};

}  // namespace orbitkv
