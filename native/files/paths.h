#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace orbitkv {

/// A path split into a directory that is open and a name inside it, with no symlink on the way.
struct Place {
  UniqueFd directory;
  std::string name;
};

/// Opens the directory of `path`. Throws SystemError: ELOOP when a component is a symlink.
Place OpenPlace(const std::string& path);

/// openat2 with RESOLVE_NO_SYMLINKS and O_CLOEXEC; a descriptor or -errno.
int OpenNoSymlinks(int directory, const std::string& path, uint64_t flags, mode_t mode);

}  // namespace orbitkv
