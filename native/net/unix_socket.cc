#include "net/unix_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/system_error.h"

namespace orbitkv::net {

namespace {

// By number: headers are older than kernels.
constexpr long kPidfdOpenCall = 434;
constexpr int kPeerPidfd = 77;  // SO_PEERPIDFD, Linux 6.5

constexpr int kBacklog = 128;

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    throw SystemError(ENAMETOOLONG, "Cannot use " + path + " as a socket (107 bytes at most)");
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

UniqueFd NewSocket() {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) throw SystemError(errno, "Cannot create a socket");
  return fd;
}

/// 0 or -errno.
int Connect(int fd, const sockaddr_un& address) {
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  return connect(fd, generic, sizeof address) == 0 ? 0 : -errno;
}

/// Removes a socket of ours that nobody answers on.
void RemoveStale(const std::string& path, const sockaddr_un& address) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return;
    throw SystemError(errno, "Cannot look at " + path);
  }
  if (!S_ISSOCK(status.st_mode) || status.st_uid != geteuid())
    throw SystemError(EEXIST,
                      "Refused to replace " + path + ", which is not a socket of this user");
  const UniqueFd probe = NewSocket();
  const int answer = Connect(probe.get(), address);
  if (answer != -ECONNREFUSED) throw SystemError(EADDRINUSE, "Somebody answers on " + path);
  if (unlink(path.c_str()) != 0 && errno != ENOENT)
    throw SystemError(errno, "Cannot remove the stale socket " + path);
}

}  // namespace

ListeningSocket::ListeningSocket(const std::string& path) : path_(path), fd_(NewSocket()) {
  const sockaddr_un address = AddressOf(path);
  RemoveStale(path, address);
  // bind() gives the file the mode of the socket: no moment with another one, and the umask of the
  // whole process stays as it is.
  if (fchmod(fd_.get(), 0600) != 0 ||
      bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw SystemError(errno, "Cannot bind " + path);
  struct stat status {};
  const bool seen = lstat(path.c_str(), &status) == 0;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  if (!seen || (status.st_mode & 0777) != 0600 || listen(fd_.get(), kBacklog) != 0) {
    const int error = seen && (status.st_mode & 0777) != 0600 ? EACCES : errno;
    unlink(path.c_str());
    throw SystemError(error, "Cannot listen on " + path);
  }
}

ListeningSocket::~ListeningSocket() {
  struct stat status {};
  if (inode_ != 0 && lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ &&
      status.st_ino == inode_)
    unlink(path_.c_str());
}

int ListeningSocket::Accept() const {
  const int fd = accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

UniqueFd ConnectUnix(const std::string& path) {
  const sockaddr_un address = AddressOf(path);
  UniqueFd fd = NewSocket();
  const int connected = Connect(fd.get(), address);
  if (connected < 0) throw SystemError(-connected, "Cannot connect to " + path);
  return fd;
}

std::array<UniqueFd, 2> ConnectedPair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
    throw SystemError(errno, "Cannot create a pair of sockets");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void PrepareStream(int socket) {
  const auto fail = [socket](int error, const char* why) {
    throw SystemError(error, "Cannot adopt descriptor " + std::to_string(socket) + ": " + why);
  };
  int domain = 0;
  int type = 0;
  socklen_t bytes = sizeof domain;
  if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) != 0 ||
      getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0)
    fail(errno, "it is not an open socket");
  if (domain != AF_UNIX || type != SOCK_STREAM) fail(EPROTOTYPE, "it is no UNIX stream socket");
  sockaddr_un peer{};
  bytes = sizeof peer;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0)
    fail(errno, "it is not connected");
  const int flags = fcntl(socket, F_GETFL);
  if (flags < 0 || fcntl(socket, F_SETFL, flags | O_NONBLOCK) != 0)
    fail(errno, "its flags cannot be set");
}

PeerCredentials ReadPeer(int socket) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0)
    throw SystemError(errno, "Cannot read the credentials of a peer");
  return {credentials.uid, credentials.pid};
}

int OpenPeerProcess(int socket, int32_t pid) {
  int pidfd = -1;
  socklen_t bytes = sizeof pidfd;
  // Names the process that connected even if its number has a new owner.
  if (getsockopt(socket, SOL_SOCKET, kPeerPidfd, &pidfd, &bytes) == 0) return pidfd;
  if (errno == ESRCH) return -ESRCH;
  // 0 stands for a process outside our namespace.
  if (pid <= 0) return -ESRCH;
  pidfd = static_cast<int>(syscall(kPidfdOpenCall, pid, 0));
  return pidfd < 0 ? -errno : pidfd;
}

}  // namespace orbitkv::net
