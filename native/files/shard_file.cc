#include "files/shard_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "base/system_error.h"
#include "files/ownership.h"
#include "files/paths.h"

namespace orbitkv {

namespace {

constexpr uint32_t kStatxDirectAlign = 0x2000;

/// struct statx as far as the alignment of direct I/O (Linux 6.1), which older headers lack.
struct StatxHead {
  uint32_t mask;
  uint8_t skipped[0x94];
  uint32_t direct_memory_align;
  uint32_t direct_offset_align;
  uint8_t rest[256 - 0xa0];
};
static_assert(sizeof(StatxHead) == 256);

/// Removes a name when it goes out of scope, unless it was kept.
class TemporaryName {
 public:
  TemporaryName(int directory, std::string name) : directory_(directory), name_(std::move(name)) {}
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;
  ~TemporaryName() {
    if (!name_.empty()) unlinkat(directory_, name_.c_str(), 0);
  }
  const std::string& name() const { return name_; }
  void Keep() { name_.clear(); }

 private:
  int directory_;
  std::string name_;
};

std::string RandomName(const std::string& name) {
  uint64_t random;
  if (getrandom(&random, sizeof random, 0) != sizeof random)
    throw SystemError(errno, "Cannot draw a random name");
  char hex[17];
  std::snprintf(hex, sizeof hex, "%016" PRIx64, random);
  return "." + name + "." + hex;
}

/// True when something of ours is at the place, false when nothing is. Throws EEXIST for anything
/// else.
bool FindOurs(const Place& place, const std::string& path) {
  struct stat status {};
  if (fstatat(place.directory.get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return false;
    throw SystemError(errno, "Cannot look at " + path);
  }
  if (S_ISLNK(status.st_mode))
    throw SystemError(ELOOP, "Refused to replace " + path + ", which is a symlink");
  if (S_ISREG(status.st_mode)) {
    const UniqueFd existing(
        OpenNoSymlinks(place.directory.get(), place.name, O_RDONLY | O_NONBLOCK, 0));
    if (existing.valid() && IsOurs(place, existing.get())) return true;
  }
  throw SystemError(
      EEXIST, "Refused to replace " + path + ", which is not a shard of OrbitKV; move it away");
}

void ReadAlignment(ShardFile& file) {
  StatxHead head{};
  if (syscall(SYS_statx, file.fd.get(), "", AT_EMPTY_PATH, kStatxDirectAlign, &head) != 0) return;
  if ((head.mask & kStatxDirectAlign) == 0) return;
  file.direct_memory_align = head.direct_memory_align;
  file.direct_offset_align = head.direct_offset_align;
}

void ReadFilesystem(ShardFile& file, const std::string& path) {
  struct stat status {};
  struct statfs filesystem {};
  if (fstat(file.fd.get(), &status) != 0 || fstatfs(file.fd.get(), &filesystem) != 0)
    throw SystemError(errno, "Cannot look at " + path);
  file.device = std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
  file.filesystem = static_cast<uint32_t>(filesystem.f_type);
}

void CheckDirect(int fd, const std::string& path) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_DIRECT) == 0)
    throw SystemError(EOPNOTSUPP, "No direct I/O on the filesystem of " + path);
}

/// Renames without replacing. Not every filesystem can: there it takes a second name and gives up
/// the first, after which the descriptor's own name counts as deleted.
int RenameToFreeName(int directory, const char* from, const char* to) {
  constexpr unsigned int kNoReplace = 1;  // RENAME_NOREPLACE, which older headers lack
  if (syscall(SYS_renameat2, directory, from, directory, to, kNoReplace) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -1;
  if (linkat(directory, from, directory, to, 0) != 0) return -1;
  return unlinkat(directory, from, 0);
}

/// Gives the new file its name. Nothing of ours there: the name must still be free. The descriptor
/// keeps a name that exists: cuFile registers no file whose name counts as deleted.
void TakeName(const Place& place, TemporaryName& temporary, bool replaces,
              const std::string& path) {
  const int directory = place.directory.get();
  if (!replaces) {
    if (RenameToFreeName(directory, temporary.name().c_str(), place.name.c_str()) != 0)
      throw SystemError(errno, "Cannot name the new shard " + path);
  } else if (renameat(directory, temporary.name().c_str(), directory, place.name.c_str()) != 0) {
    throw SystemError(errno, "Cannot replace the shard " + path);
  }
  temporary.Keep();
}

}  // namespace

std::shared_ptr<ShardFile> OpenShardFile(const std::string& path, uint64_t bytes, bool direct) {
  const Place place = OpenPlace(path);
  const bool replaces = FindOurs(place, path);

  auto file = std::make_shared<ShardFile>();
  TemporaryName temporary(place.directory.get(), RandomName(place.name));
  const int flags = O_CREAT | O_EXCL | O_RDWR | (direct ? O_DIRECT : 0);
  const int fd =
      OpenNoSymlinks(place.directory.get(), temporary.name(), static_cast<uint64_t>(flags), 0600);
  if (fd == -EINVAL && direct)
    throw SystemError(EOPNOTSUPP, "No direct I/O on the filesystem of " + path);
  if (fd < 0) throw SystemError(-fd, "Cannot create a shard beside " + path);
  file->fd.Reset(fd);
  if (direct) CheckDirect(fd, path);
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    throw SystemError(errno, "Cannot give " + path + " " + std::to_string(bytes) + " bytes");
  file->bytes = bytes;
  file->direct = direct;
  ReadAlignment(*file);
  ReadFilesystem(*file, path);
  MarkAsOurs(place, fd);
  TakeName(place, temporary, replaces, path);
  return file;
}

int ReserveShardFile(ShardFile& file) {
  int reserved;
  do {
    reserved = fallocate(file.fd.get(), 0, 0, static_cast<off_t>(file.bytes));
  } while (reserved != 0 && errno == EINTR);
  if (reserved == 0) return 0;
  const int error = errno;
  if (ftruncate(file.fd.get(), 0) == 0) file.bytes = 0;
  return -error;
}

bool CloseShardFile(int32_t number) {
  const auto file = Files().Remove(number);
  if (file == nullptr) return false;
  file->closed.store(true);
  ClosedFilesEpoch().fetch_add(1);
  return true;
}

}  // namespace orbitkv
