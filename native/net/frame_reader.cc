#include "net/frame_reader.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace orbitkv::net {

namespace {

// Memory for a body grows as its bytes come: a length word alone buys a peer no more than this.
constexpr size_t kGrowthBytes = size_t{64} << 10;
// A larger buffer goes back after its frame.
constexpr size_t kKeptBytesMax = size_t{64} << 10;

uint32_t LoadLittle32(const std::array<std::byte, kLengthBytes>& bytes) {
  uint32_t value = 0;
  for (size_t i = kLengthBytes; i-- > 0;) value = value << 8 | std::to_integer<uint32_t>(bytes[i]);
  return value;
}

}  // namespace

int FrameReader::Receive(int socket, std::span<std::byte> target) {
  // Before anything is received: a descriptor that came and found no room would be lost.
  descriptors_.reserve(kDescriptorsMax);
  iovec part{target.data(), target.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kDescriptorsMax)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t received;
  do {
    received = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) return -errno;
  // The kernel closes what does not fit; what fits is ours at once.
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      UniqueFd owned(fd);
      if (descriptors_.size() < kDescriptorsMax) descriptors_.push_back(std::move(owned));
    }
  }
  return static_cast<int>(received);
}

FrameReader::Outcome FrameReader::Fail(int error) {
  error_ = error;
  return Outcome::kFailed;
}

FrameReader::Outcome FrameReader::Read(int socket) {
  while (length_have_ < kLengthBytes) {
    const int got = Receive(socket, std::span(length_word_).subspan(length_have_));
    if (got == -EAGAIN) return Outcome::kAgain;
    if (got == 0 && length_have_ == 0) return Outcome::kEnd;
    if (got <= 0) return Fail(got == 0 ? ECONNRESET : -got);
    length_have_ += static_cast<size_t>(got);
    if (length_have_ < kLengthBytes) continue;
    body_bytes_ = LoadLittle32(length_word_);
    if (body_bytes_ == 0 || body_bytes_ > kBodyBytesMax) return Fail(EMSGSIZE);
  }
  while (body_have_ < body_bytes_) {
    const size_t room = std::min(body_bytes_, body_have_ + kGrowthBytes);
    if (body_.size() < room) body_.resize(room);
    const int got = Receive(socket, std::span(body_).subspan(body_have_));
    if (got == -EAGAIN) return Outcome::kAgain;
    if (got <= 0) return Fail(got == 0 ? ECONNRESET : -got);
    body_have_ += static_cast<size_t>(got);
  }
  whole_ = true;
  return Outcome::kFrame;
}

void FrameReader::Clear() {
  length_have_ = 0;
  body_bytes_ = 0;
  body_have_ = 0;
  body_.clear();
  if (body_.capacity() > kKeptBytesMax) body_.shrink_to_fit();
  descriptors_.clear();
  whole_ = false;
}

}  // namespace orbitkv::net
