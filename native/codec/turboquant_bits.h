#pragma once

// Codes of a vector as they are stored: a stream of bits, then numbers of FP16.

#include <cstdint>
#include <cstring>

#include "codec/lanes.h"
#include "codec/turboquant_work.h"

namespace orbitkv::turboquant {

/// Codes as a stream of bits: value i at bit i * bits.
template <uint32_t kBits>
ORBITKV_INLINE uint8_t* Pack(const Work& work, uint32_t dim, uint8_t* stored) {
  for (uint32_t i = 0; i < dim; i += 8) {
    auto codes = Load<uint64_t>(work.codes + i);
    if constexpr (kBits == 4) {
      codes = (codes | codes >> 4) & 0x00ff00ff00ff00ff;
      codes = (codes | codes >> 8) & 0x0000ffff0000ffff;
      codes |= codes >> 16;
    } else {
      codes = (codes | codes >> 5) & 0x003f003f003f003f;
      codes = (codes | codes >> 10) & 0x00000fff00000fff;
      codes |= codes >> 20;
    }
    if constexpr (kBits == 4) {
      Store(stored, static_cast<uint32_t>(codes));
    } else {
      Store(stored, static_cast<uint16_t>(codes));
      stored[2] = static_cast<uint8_t>(codes >> 16);
    }
    stored += kBits;
  }
  return stored;
}

/// Eight codes of a stream, a byte each.
template <uint32_t kBits>
ORBITKV_INLINE uint64_t EightCodes(const uint8_t* stored) {
  if constexpr (kBits == 4) {
    uint64_t codes = Load<uint32_t>(stored);
    codes = (codes | codes << 16) & 0x0000ffff0000ffff;
    codes = (codes | codes << 8) & 0x00ff00ff00ff00ff;
    return (codes | codes << 4) & 0x0f0f0f0f0f0f0f0f;
  } else {
    uint64_t codes = Load<uint16_t>(stored) | static_cast<uint64_t>(stored[2]) << 16;
    codes = (codes | codes << 20) & 0x00000fff00000fff;
    codes = (codes | codes << 10) & 0x003f003f003f003f;
    return (codes | codes << 5) & 0x0707070707070707;
  }
}

template <uint32_t kBits>
ORBITKV_INLINE const uint8_t* Unpack(const uint8_t* stored, uint32_t dim, Work& work) {
  typedef uint64_t Sixteen __attribute__((vector_size(16)));
  // Two at a time: a load that spans two stores would wait for both to reach the cache.
  for (uint32_t i = 0; i < dim; i += 16, stored += 2 * kBits)
    Store(work.codes + i, Sixteen{EightCodes<kBits>(stored), EightCodes<kBits>(stored + kBits)});
  return stored;
}

ORBITKV_INLINE uint8_t* StoreFp16(uint8_t* stored, uint16_t bits) {
  std::memcpy(stored, &bits, sizeof bits);
  return stored + sizeof bits;
}

}  // namespace orbitkv::turboquant
