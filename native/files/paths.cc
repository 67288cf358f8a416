#include "files/paths.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/system_error.h"

namespace orbitkv {

namespace {

// openat2 by number: C libraries without the call, and headers without the struct, are still in
// use.
constexpr long kOpenat2Call = 437;
constexpr uint64_t kResolveNoMagiclinks = 0x02;
constexpr uint64_t kResolveNoSymlinks = 0x04;

struct OpenHow {
  uint64_t flags;
  uint64_t mode;
  uint64_t resolve;
};

}  // namespace

int OpenNoSymlinks(int directory, const std::string& path, uint64_t flags, mode_t mode) {
  OpenHow how{flags | O_CLOEXEC, (flags & O_CREAT) != 0 ? mode : 0,
              kResolveNoSymlinks | kResolveNoMagiclinks};
  while (true) {
    const long fd = syscall(kOpenat2Call, directory, path.c_str(), &how, sizeof how);
    if (fd >= 0) return static_cast<int>(fd);
    if (errno != EINTR && errno != EAGAIN) return -errno;
  }
}

Place OpenPlace(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "."
                             : slash == 0               ? "/"
                                                        : path.substr(0, slash);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (name.empty() || name == "." || name == "..")
    throw SystemError(EISDIR, "Cannot use " + path + " as a file");
  const int directory = OpenNoSymlinks(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY, 0);
  if (directory < 0) throw SystemError(-directory, "Cannot open the directory " + folder);
  return {UniqueFd(directory), name};
}

}  // namespace orbitkv
