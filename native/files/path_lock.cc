#include "files/path_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/system_error.h"
#include "files/paths.h"

namespace orbitkv {

namespace {

std::string HolderOf(int fd) {
  char text[32];
  const ssize_t bytes = pread(fd, text, sizeof text, 0);
  std::string holder(text, bytes > 0 ? static_cast<size_t>(bytes) : 0);
  while (!holder.empty() && holder.back() == '\n') holder.pop_back();
  return holder.empty() ? "another process" : "process " + holder;
}

/// Whether the name still leads to the locked inode: somebody may have removed the file in between.
bool IsStillNamed(const Place& place, int fd) {
  struct stat named {};
  struct stat opened {};
  return fstatat(place.directory.get(), place.name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         fstat(fd, &opened) == 0 && named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

}  // namespace

std::shared_ptr<PathLock> LockPathFile(const std::string& path) {
  const Place place = OpenPlace(path);
  while (true) {
    auto lock = std::make_shared<PathLock>();
    const int fd =
        OpenNoSymlinks(place.directory.get(), place.name, O_RDWR | O_CREAT | O_NONBLOCK, 0600);
    if (fd < 0) throw SystemError(-fd, "Cannot open the lock " + path);
    lock->fd.Reset(fd);
    struct stat status {};
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
      throw SystemError(EINVAL, "Refused " + path + " as a lock: it is not a regular file");
    // What is written below must not land in somebody's file that was given this name, too.
    if (status.st_uid != geteuid() || status.st_nlink > 1)
      throw SystemError(
          EPERM, "Refused " + path + " as a lock: it is another user's, or has a second name");
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
      throw SystemError(errno, "The lock " + path + " is held by " + HolderOf(fd));
    if (!IsStillNamed(place, fd)) continue;
    const std::string holder = std::to_string(getpid()) + "\n";
    // For people only: the lock itself is the kernel's.
    if (ftruncate(fd, 0) != 0 || pwrite(fd, holder.data(), holder.size(), 0) < 0)
      throw SystemError(errno, "Cannot write the lock " + path);
    return lock;
  }
}

}  // namespace orbitkv
