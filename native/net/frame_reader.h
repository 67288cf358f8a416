#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "net/frame.h"

namespace orbitkv::net {

/// Assembles the frames of one stream socket with the descriptors that came on them. Reads never
/// cross a frame's end, so that a descriptor always belongs to the frame being read. Holds one
/// whole frame at most: the rest waits in the socket, and the peer feels it.
class FrameReader {
 public:
  enum class Outcome { kFrame, kAgain, kEnd, kFailed };

  /// Reads until a frame is whole, the socket is empty, ended or failed. Requires !whole().
  Outcome Read(int socket);
  /// Positive errno of kFailed: EMSGSIZE for a length that no frame has, ECONNRESET for an end
  /// inside a frame.
  int error() const { return error_; }

  bool whole() const { return whole_; }
  /// The frame without its length word, until Clear().
  std::span<const std::byte> body() const { return body_; }
  std::vector<UniqueFd> TakeDescriptors() { return std::move(descriptors_); }
  /// Starts the next frame.
  void Clear();

 private:
  /// Bytes received into `target` (0: end), or -errno. Keeps the descriptors that came along.
  int Receive(int socket, std::span<std::byte> target);
  Outcome Fail(int error);

  std::array<std::byte, kLengthBytes> length_word_{};
  size_t length_have_ = 0;
  size_t body_bytes_ = 0;
  size_t body_have_ = 0;
  std::vector<std::byte> body_;
  std::vector<UniqueFd> descriptors_;
  bool whole_ = false;
  int error_ = 0;
};

}  // namespace orbitkv::net
