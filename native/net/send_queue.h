#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "base/unique_fd.h"
#include "net/frame.h"

namespace orbitkv::net {

/// What one connection still has to send: whole frames in order, the first perhaps begun.
class SendQueue {
 public:
  /// Sends a frame (its length word is added) or queues what the socket does not take; descriptors
  /// are duplicated. Returns 0 or -errno: -EAGAIN when too much is queued, -ENOMEM; then nothing of
  /// this frame was taken. -EPIPE once the stream has ended, by the peer or by a frame cut short.
  int Send(int socket, std::span<const std::byte> body, std::span<const int> fds);
  /// Sends what is queued as far as the socket takes it.
  void Flush(int socket);

  bool empty() const { return frames_.empty(); }

 private:
  struct Frame {
    std::vector<std::byte> bytes;
    size_t sent = 0;
    std::vector<UniqueFd> descriptors;
  };

  /// Queues a frame of which `sent` bytes have gone, or nothing; 0 or -errno. Throws
  /// std::bad_alloc.
  int Queue(std::span<const std::byte> body, std::span<const int> fds,
            std::span<const std::byte> word, ssize_t sent);
  /// The peer takes no more; its side of the stream tells the rest.
  void Break();

  std::deque<Frame> frames_;
  size_t queued_bytes_ = 0;
  bool broken_ = false;
};

}  // namespace orbitkv::net
