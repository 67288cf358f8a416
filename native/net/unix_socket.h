#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>

#include "base/unique_fd.h"

namespace orbitkv::net {

/// A bound and listening UNIX socket. Its file goes with it, if the path still leads to this one.
class ListeningSocket {
 public:
  /// Binds with mode 0600. A socket that nobody answers on is replaced; throws SystemError:
  /// EADDRINUSE when somebody does, EEXIST when something else is there.
  explicit ListeningSocket(const std::string& path);
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;
  ~ListeningSocket();

  int fd() const { return fd_.get(); }
  /// A connection (non-blocking) or -errno.
  int Accept() const;

 private:
  std::string path_;
  UniqueFd fd_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

/// Connects; throws SystemError (ENOENT, ECONNREFUSED, EACCES, EAGAIN when too many wait).
UniqueFd ConnectUnix(const std::string& path);

/// Two connected ends; each sees this process as its peer. Throws SystemError.
std::array<UniqueFd, 2> ConnectedPair();

/// Makes a descriptor that somebody handed over fit for a port: non-blocking. Throws SystemError:
/// EBADF, ENOTSOCK, EPROTOTYPE when it is no UNIX stream socket, ENOTCONN when it has no peer.
void PrepareStream(int socket);

struct PeerCredentials {
  uint32_t uid;
  int32_t pid;
};

/// Who opened the other end, as the kernel recorded it. Throws SystemError.
PeerCredentials ReadPeer(int socket);

/// A descriptor that becomes readable when the peer process ends, or -errno: -ESRCH when it has.
int OpenPeerProcess(int socket, int32_t pid);

}  // namespace orbitkv::net
