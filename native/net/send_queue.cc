#include "net/send_queue.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace orbitkv::net {

namespace {

std::array<std::byte, kLengthBytes> LengthWord(size_t bytes) {
  std::array<std::byte, kLengthBytes> word;
  for (size_t i = 0; i < kLengthBytes; ++i)
    word[i] = static_cast<std::byte>(bytes >> (8 * i) & 0xff);
  return word;
}

/// Bytes sent or -errno.
ssize_t SendParts(int socket, std::span<iovec> parts, std::span<const int> fds) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kDescriptorsMax)] = {};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? -errno : sent;
}

}  // namespace

int SendQueue::Send(int socket, std::span<const std::byte> body, std::span<const int> fds) {
  if (broken_) return -EPIPE;
  if (body.empty() || body.size() > kBodyBytesMax) return -EMSGSIZE;
  if (fds.size() > kDescriptorsMax) return -EINVAL;
  const size_t frame_bytes = kLengthBytes + body.size();
  if (!frames_.empty() && queued_bytes_ + frame_bytes > kQueuedBytesMax) return -EAGAIN;

  auto word = LengthWord(body.size());
  ssize_t sent = 0;
  if (frames_.empty()) {
    std::array<iovec, 2> parts{
        {{word.data(), word.size()}, {const_cast<std::byte*>(body.data()), body.size()}}};
    sent = SendParts(socket, parts, fds);
    if (sent == static_cast<ssize_t>(frame_bytes)) return 0;
    if (sent == -EBADF || sent == -EINVAL || sent == -ETOOMANYREFS) return static_cast<int>(sent);
    if (sent < 0 && sent != -EAGAIN) {
      Break();
      return -EPIPE;
    }
  }

  try {
    return Queue(body, fds, word, sent);
  } catch (const std::bad_alloc&) {
    // A frame of which a part has gone cannot be taken back.
    if (sent <= 0) return -ENOMEM;
    Break();
    return -EPIPE;
  }
}

int SendQueue::Queue(std::span<const std::byte> body, std::span<const int> fds,
                     std::span<const std::byte> word, ssize_t sent) {
  Frame frame;
  if (sent <= 0) {
    for (const int fd : fds) {
      frame.descriptors.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
      if (!frame.descriptors.back().valid()) return -errno;
    }
  }
  frame.sent = sent > 0 ? static_cast<size_t>(sent) : 0;
  frame.bytes.reserve(word.size() + body.size());
  frame.bytes.insert(frame.bytes.end(), word.begin(), word.end());
  frame.bytes.insert(frame.bytes.end(), body.begin(), body.end());
  frames_.push_back(std::move(frame));
  queued_bytes_ += word.size() + body.size();
  return 0;
}

void SendQueue::Flush(int socket) {
  while (!frames_.empty()) {
    Frame& frame = frames_.front();
    iovec part{frame.bytes.data() + frame.sent, frame.bytes.size() - frame.sent};
    std::array<int, kDescriptorsMax> fds;
    size_t count = 0;
    for (const UniqueFd& fd : frame.descriptors) fds[count++] = fd.get();
    const ssize_t sent = SendParts(socket, std::span(&part, 1), std::span(fds).first(count));
    if (sent == -EAGAIN) return;
    if (sent < 0) return Break();
    // Descriptors went with the first byte.
    frame.descriptors.clear();
    frame.sent += static_cast<size_t>(sent);
    if (frame.sent < frame.bytes.size()) continue;
    queued_bytes_ -= frame.bytes.size();
    frames_.pop_front();
  }
}

void SendQueue::Break() {
  broken_ = true;
  frames_.clear();
  queued_bytes_ = 0;
}

}  // namespace orbitkv::net
