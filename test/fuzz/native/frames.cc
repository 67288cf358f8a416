// Frames and the descriptors that come on them, through real sockets.
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "net/frame_reader.h"
#include "net/unix_socket.h"
#include "target.h"

namespace orbitkv::fuzz {

namespace {

/// An input is a script and a stream: eight bytes say how the stream is cut into pieces and how
/// many descriptors come on each, the rest is what the peer writes.
constexpr size_t kScriptBytes = 8;

struct Piece {
  size_t first;
  size_t bytes;
  size_t descriptors;
};

struct Expected {
  std::vector<Input> frames;
  std::vector<size_t> descriptors;
  int error = 0;
  bool operator==(const Expected&) const = default;
};

std::vector<Piece> Cut(std::span<const std::byte> script, size_t stream_bytes) {
  std::vector<Piece> pieces;
  for (size_t at = 0; at < stream_bytes;) {
    const auto step = std::to_integer<size_t>(script[pieces.size() % kScriptBytes]);
    const size_t bytes = std::min(stream_bytes - at, step % 8 == 7 ? stream_bytes : 1 + step);
    pieces.push_back({at, bytes, step % 3 == 0 ? step / 3 : 0});
    at += bytes;
  }
  return pieces;
}

/// What a peer's stream means: u32 lengths, little endian; a descriptor belongs to the frame that
/// holds the byte it came with; at most 64 of one message and of one frame.
Expected Model(std::span<const std::byte> stream, const std::vector<Piece>& pieces) {
  Expected expected;
  for (size_t at = 0; at < stream.size();) {
    if (stream.size() - at < 4) {
      expected.error = ECONNRESET;
      break;
    }
    Wide length = 0;
    for (size_t i = 4; i-- > 0;) length = length * 256 + std::to_integer<int>(stream[at + i]);
    if (length == 0 || length > (1 << 20) - 4) {
      expected.error = EMSGSIZE;
      break;
    }
    const size_t end = at + 4 + static_cast<size_t>(length);
    if (end > stream.size()) {
      expected.error = ECONNRESET;
      break;
    }
    size_t descriptors = 0;
    for (const Piece& piece : pieces)
      if (piece.first >= at && piece.first < end)
        descriptors += std::min<size_t>(piece.descriptors, 64);
    expected.frames.emplace_back(stream.begin() + at + 4, stream.begin() + end);
    expected.descriptors.push_back(std::min<size_t>(descriptors, 64));
    at = end;
  }
  return expected;
}

void Write(int socket, std::span<const std::byte> bytes, size_t descriptors, int fd) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 85)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptors > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * descriptors);
    for (size_t i = 0; i < descriptors; ++i)
      std::memcpy(CMSG_DATA(header) + i * sizeof fd, &fd, sizeof fd);
  }
  while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

/// Reads what is there; true when the stream has ended.
bool Take(net::FrameReader& reader, int socket, Expected& got) {
  for (;;) {
    switch (reader.Read(socket)) {
      case net::FrameReader::Outcome::kFrame:
        got.frames.emplace_back(reader.body().begin(), reader.body().end());
        got.descriptors.push_back(reader.TakeDescriptors().size());
        reader.Clear();
        break;
      case net::FrameReader::Outcome::kAgain:
        return false;
      case net::FrameReader::Outcome::kEnd:
        return true;
      case net::FrameReader::Outcome::kFailed:
        got.error = reader.error();
        return true;
    }
  }
}

/// The least descriptor that is free: the same before and after when none was lost.
int LeastFree() {
  const int fd = dup(0);
  close(fd);
  return fd;
}

Breach Run(std::span<const std::byte> input, bool weak) {
  static const int sent = eventfd(0, EFD_CLOEXEC);
  if (input.size() < kScriptBytes) return std::nullopt;
  const int free_before = LeastFree();
  const auto stream = input.subspan(kScriptBytes);
  const auto pieces = Cut(input.first(kScriptBytes), stream.size());
  Expected got;
  {
    auto ends = net::ConnectedPair();
    net::FrameReader reader;
    bool ended = false;
    for (const Piece& piece : pieces) {
      if (ended) break;
      Write(ends[0].get(), stream.subspan(piece.first, piece.bytes), piece.descriptors, sent);
      ended = Take(reader, ends[1].get(), got);
    }
    ends[0].Reset();
    if (!ended) Take(reader, ends[1].get(), got);
  }
  // The weakness: an end inside a frame passes for an end.
  if (weak && got.error == ECONNRESET) got.error = 0;
  const Expected expected = Model(stream, pieces);
  if (got.frames != expected.frames) return "other frames than were sent";
  if (got.descriptors != expected.descriptors) return "other descriptors than came on a frame";
  if (got.error != expected.error)
    return "ended with " + std::to_string(got.error) + ", not " + std::to_string(expected.error);
  if (LeastFree() != free_before) return "a descriptor was lost";
  return std::nullopt;
}

Input Script(std::array<uint8_t, kScriptBytes> script, std::initializer_list<size_t> bodies) {
  Input input;
  for (const uint8_t byte : script) input.push_back(static_cast<std::byte>(byte));
  for (const size_t bytes : bodies) {
    for (size_t i = 0; i < 4; ++i) input.push_back(static_cast<std::byte>(bytes >> (8 * i) & 0xff));
    for (size_t i = 0; i < bytes; ++i) input.push_back(static_cast<std::byte>(i));
  }
  return input;
}

}  // namespace

Target Frames(bool weak) {
  return {"frames",
          {Script({7, 7, 7, 7, 7, 7, 7, 7}, {1, 16, 40}), Script({1, 2, 4, 1, 2, 4, 1, 2}, {20, 3}),
           Script({3, 255, 9, 60, 1, 198, 2, 7}, {64, 200, 5}),
           Script({255, 255, 255, 255, 255, 255, 255, 255}, {600})},
          false,
          [weak](std::span<const std::byte> input) { return Run(input, weak); }};
}

}  // namespace orbitkv::fuzz
