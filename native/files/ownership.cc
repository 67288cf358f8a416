#include "files/ownership.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>

#include "base/system_error.h"

namespace orbitkv {

namespace {

constexpr char kAttribute[] = "user.orbitkv";
constexpr char kValue[] = "shard";

std::string SidecarName(const Place& place) { return "." + place.name + ".orbitkv"; }

/// "device inode" of an open file: what the sidecar holds.
std::string Identity(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return "";
  return "orbitkv shard " + std::to_string(status.st_dev) + " " + std::to_string(status.st_ino) +
         "\n";
}

}  // namespace

void MarkAsOurs(const Place& place, int fd) {
  if (fsetxattr(fd, kAttribute, kValue, sizeof kValue - 1, 0) == 0) return;
  if (errno != EOPNOTSUPP) throw SystemError(errno, "Cannot mark " + place.name);
  const std::string sidecar = SidecarName(place);
  const UniqueFd file(OpenNoSymlinks(place.directory.get(), sidecar,
                                     O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK, 0600));
  const std::string identity = Identity(fd);
  if (!file.valid()) throw SystemError(-file.get(), "Cannot create the mark " + sidecar);
  if (write(file.get(), identity.data(), identity.size()) != static_cast<ssize_t>(identity.size()))
    throw SystemError(errno, "Cannot write the mark " + sidecar);
}

bool IsOurs(const Place& place, int fd) {
  char value[sizeof kValue];
  const ssize_t bytes = fgetxattr(fd, kAttribute, value, sizeof value);
  if (bytes >= 0) return std::string(value, static_cast<size_t>(bytes)) == kValue;
  if (errno != EOPNOTSUPP) return false;
  const UniqueFd file(
      OpenNoSymlinks(place.directory.get(), SidecarName(place), O_RDONLY | O_NONBLOCK, 0));
  if (!file.valid()) return false;
  char text[128];
  const ssize_t read_bytes = read(file.get(), text, sizeof text);
  const std::string identity = Identity(fd);
  return read_bytes > 0 && !identity.empty() &&
         std::string(text, static_cast<size_t>(read_bytes)) == identity;
}

}  // namespace orbitkv
