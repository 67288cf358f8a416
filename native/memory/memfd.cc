#include "memory/memfd.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <string>

#include "base/system_error.h"

// Absent from the headers of older distributions.
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace orbitkv {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

int OpenMemory() {
  const int fd = memfd_create("orbitkv", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (fd >= 0 || errno != EINVAL) return fd;
  return memfd_create("orbitkv", MFD_CLOEXEC | MFD_ALLOW_SEALING);  // Linux before 6.3
}

}  // namespace

UniqueFd CreateMemory(uint64_t bytes) {
  const auto fail = [bytes](int error) {
    throw SystemError(error, "Cannot create shared memory of " + std::to_string(bytes) + " bytes");
  };
  if (bytes == 0) fail(EINVAL);
  UniqueFd memory(OpenMemory());
  if (!memory.valid()) fail(errno);
  if (ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) fail(errno);
  return memory;
}

void SealMemory(const UniqueFd& memory, Sealing sealing) {
  const int writes = sealing == Sealing::kSizeAndWrites ? F_SEAL_FUTURE_WRITE : 0;
  if (fcntl(memory.get(), F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL | writes) != 0)
    throw SystemError(errno, "Cannot seal shared memory");
}

uint64_t SealedBytes(int fd) {
  const auto refuse = [fd](int error, const char* why) {
    throw SystemError(error, "Cannot import descriptor " + std::to_string(fd) + ": " + why);
  };
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 && errno == EBADF) refuse(EBADF, "it is not open");
  if (seals < 0) refuse(EPERM, "it is not a memfd");
  if ((seals & kSizeSeals) != kSizeSeals) refuse(EPERM, "its size is not sealed");
  // hugetlbfs takes seals too, but its pages can run out under a mapping, which then faults.
  struct statfs filesystem;
  if (fstatfs(fd, &filesystem) != 0) refuse(errno, "its filesystem is unknown");
  if (filesystem.f_type != TMPFS_MAGIC) refuse(EPERM, "it is not a memfd of ordinary pages");
  struct stat status;
  if (fstat(fd, &status) != 0)
    refuse(errno, "its size is unknown");  // read after the seals: it is final
  if (status.st_size <= 0) refuse(EINVAL, "it is empty");
  return static_cast<uint64_t>(status.st_size);
}

}  // namespace orbitkv
