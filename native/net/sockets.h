#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/unique_fd.h"
#include "net/frame_reader.h"
#include "net/send_queue.h"
#include "net/unix_socket.h"
#include "port/completion.h"

namespace orbitkv::net {

/// Listeners and connections of one port, driven by one epoll set that the port sleeps on. All
/// calls come from the port's thread. Numbers are never used again.
class Sockets {
 public:
  /// Throws SystemError.
  Sockets();

  /// Readable when Poll has something to do.
  int epoll_fd() const { return epoll_.get(); }
  /// Frames wait that no descriptor announces any more: Poll before sleeping.
  bool ready() const { return !ready_.empty(); }
  /// Takes what has come, at most one frame a connection; appends completions.
  void Poll(std::vector<Completion>& out);

  int32_t Listen(const std::string& path);
  bool CloseListener(int32_t listener);
  int32_t Connect(const std::string& path);
  /// Takes over one end of a connected UNIX stream socket, also when it throws (SystemError).
  int32_t AdoptEnd(UniqueFd end);

  /// Null when there is no such connection.
  const PeerCredentials* Peer(int32_t connection) const;
  /// Bytes or -errno: -EAGAIN no frame waits, -EMSGSIZE the target is too small.
  int TakeFrame(int32_t connection, std::span<std::byte> target);
  std::vector<UniqueFd> TakeDescriptors(int32_t connection);
  int Send(int32_t connection, std::span<const std::byte> body, std::span<const int> fds);
  bool CloseConnection(int32_t connection);

 private:
  struct Listener {
    explicit Listener(const std::string& path) : socket(path) {}
    ListeningSocket socket;
    /// No descriptor was free: it listens again at this time.
    int64_t resumes_us = 0;
  };
  struct Connection {
    UniqueFd socket;
    /// Watched until the number is closed, also after the stream has ended.
    UniqueFd process;
    PeerCredentials peer{};
    FrameReader reader;
    SendQueue queue;
    std::vector<UniqueFd> taken;
    bool listed = false;        // in ready_
    bool readable = true;       // the socket may hold more
    bool watches_room = false;  // epoll reports room to send
  };

  /// Adds a connection that is open. Returns its number, or throws SystemError. `unwatched`: 0, or
  /// -errno of why the peer's end will not be seen.
  int32_t Adopt(UniqueFd socket, int* unwatched);
  void Accept(int32_t number, Listener& listener, std::vector<Completion>& out);
  void Pause(int32_t number, Listener& listener);
  void ResumePaused();
  void Read(int32_t number, std::vector<Completion>& out);
  void List(int32_t number, Connection& connection);
  void WatchRoom(int32_t number, Connection& connection);
  void End(int32_t number, Connection& connection, int result, std::vector<Completion>& out);
  void ProcessEnded(int32_t number);
  /// Tells the end of processes whose last words have been taken. A frame that is not taken holds
  /// it back, and whoever takes it makes the connection ready.
  void TellEnds(std::vector<Completion>& out);
  Connection* Find(int32_t number);

  UniqueFd epoll_;
  int32_t next_ = 1;
  std::unordered_map<int32_t, std::unique_ptr<Listener>> listeners_;
  std::unordered_map<int32_t, std::unique_ptr<Connection>> connections_;
  /// Connections that may have a frame and hold none.
  std::vector<int32_t> ready_;
  std::vector<int32_t> reading_;
  /// Connections whose peer process has ended, which is not told yet.
  std::vector<int32_t> exited_;
  size_t paused_ = 0;
};

}  // namespace orbitkv::net
