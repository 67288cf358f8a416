#pragma once

#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "memory/registry.h"

namespace orbitkv {

/// An advisory lock on a file of its own. Its descriptor never enters a ring, so the lock ends with
/// the process even while the kernel still works on requests. The file holds the process number of
/// its holder and stays afterwards.
struct PathLock {
  UniqueFd fd;
};

inline Registry<PathLock>& PathLocks() { return RegistryOf<PathLock>(); }

/// Throws SystemError: EWOULDBLOCK when another process (or this one) holds it.
std::shared_ptr<PathLock> LockPathFile(const std::string& path);

}  // namespace orbitkv
