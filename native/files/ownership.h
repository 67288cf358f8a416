#pragma once

#include "files/paths.h"

namespace orbitkv {

/// How we know again, after a crash, that a file is ours to replace: an extended attribute, or
/// where the filesystem has none, a small file beside it that names its inode.

/// Marks an open file that will be called `place.name`. Throws SystemError.
void MarkAsOurs(const Place& place, int fd);

/// Whether the open file called `place.name` carries our mark.
bool IsOurs(const Place& place, int fd);

}  // namespace orbitkv
