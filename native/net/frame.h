#pragma once

#include <cstddef>
#include <cstdint>

namespace orbitkv::net {

// A frame is a u32 of length, little endian, and that many bytes; descriptors ride on its first
// byte. The bounds are those of src/shared/layout/wire/limits.ts.
inline constexpr size_t kLengthBytes = 4;
inline constexpr size_t kFrameBytesMax = size_t{1} << 20;  // length word included
inline constexpr size_t kBodyBytesMax = kFrameBytesMax - kLengthBytes;
inline constexpr size_t kDescriptorsMax = 64;
/// Queued for a peer that does not read; beyond it send refuses.
inline constexpr size_t kQueuedBytesMax = size_t{4} << 20;

}  // namespace orbitkv::net
