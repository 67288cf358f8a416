#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "memory/registry.h"

namespace orbitkv {

/// One opened shard file. Closed when its name is gone from the registry and no operation in flight
/// holds it.
struct ShardFile {
  UniqueFd fd;
  uint64_t bytes = 0;
  bool direct = false;
  /// From statx; 0 when the filesystem does not say.
  uint32_t direct_memory_align = 0;
  uint32_t direct_offset_align = 0;
  /// major:minor of the filesystem's device.
  std::string device;
  uint64_t filesystem = 0;
  /// Set when the name is taken away: rings drop their registered descriptor when they see it.
  std::atomic<bool> closed{false};
};

/// File number -> file.
inline Registry<ShardFile>& Files() { return RegistryOf<ShardFile>(); }

/// Changes whenever a file is closed, so that a ring looks through its registered files only then.
inline std::atomic<uint32_t>& ClosedFilesEpoch() {
  static std::atomic<uint32_t> epoch{0};
  return epoch;
}

/// Creates a new inode of `bytes` (sparse) beside `path` and renames it over `path`, which must be
/// absent or ours. Throws SystemError.
std::shared_ptr<ShardFile> OpenShardFile(const std::string& path, uint64_t bytes, bool direct);

/// Allocates the whole length on the disk. 0 or -errno; after an error the file is cut to nothing,
/// so that it holds no space.
int ReserveShardFile(ShardFile& file);

/// Takes the name of a file away; the file closes with its last operation. False when there is no
/// such number.
bool CloseShardFile(int32_t file);

}  // namespace orbitkv
