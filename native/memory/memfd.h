#pragma once

#include <cstdint>

#include "base/unique_fd.h"

/// Memory that two processes share: a memfd that can neither shrink nor grow, so that a mapping of
/// it cannot fault. Nothing has a name: the last descriptor or mapping that closes frees it,
/// whoever dies first.
namespace orbitkv {

enum class Sealing {
  kSize,           // against shrink, grow and further seals
  kSizeAndWrites,  // also against every write and writable mapping from now on; mappings that exist
                   // stay writable
};

/// A new memfd, close-on-exec, that still takes seals. Throws SystemError.
UniqueFd CreateMemory(uint64_t bytes);

/// Throws SystemError.
void SealMemory(const UniqueFd& memory, Sealing sealing);

/// Bytes of a memfd that a peer passed. Throws SystemError. EPERM: not a memfd of ordinary pages,
/// or its size is not sealed. EINVAL: it is empty.
uint64_t SealedBytes(int fd);

}  // namespace orbitkv
