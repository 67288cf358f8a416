#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace orbitkv {

/// Shared memory mapped into this process, writable. Unmapped when the last holder lets go; holders
/// are the registry (until release), views, and every queued or running copy that names it.
class Mapping {
 public:
  /// Maps a descriptor that a peer passed; the descriptor stays the caller's. Throws SystemError
  /// (see SealedBytes).
  static std::shared_ptr<Mapping> Import(int fd);

  /// Maps the first `bytes` of a memfd of our own. Throws SystemError.
  static std::shared_ptr<Mapping> Map(int fd, uint64_t bytes);

  Mapping(std::byte* base, uint64_t bytes);
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
};

}  // namespace orbitkv
