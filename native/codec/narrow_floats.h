#pragma once

// The 16-bit formats of KV pages, one value at a time. Widening is exact; narrowing rounds to
// nearest, ties to even.

#include <bit>
#include <cstdint>

namespace orbitkv {

enum class NarrowFloat : uint8_t { kBf16, kFp16 };

inline constexpr uint32_t kNarrowMagnitude = 0x7fff;
/// The magnitude of infinity; larger ones are NaN.
inline constexpr uint32_t kBf16Infinity = 0x7f80;
inline constexpr uint32_t kFp16Infinity = 0x7c00;

constexpr bool IsFiniteFp16(uint16_t bits) { return (bits & kNarrowMagnitude) < kFp16Infinity; }

/// Of a finite value: as a float's bits, its exponent is too small by 112.
constexpr float WidenFp16(uint16_t bits) {
  const uint32_t magnitude = bits & kNarrowMagnitude;
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return (bits & 0x8000) != 0 ? -value : value;
}

/// Infinity from 65520 on. NaN is not for this function.
constexpr uint16_t NarrowToFp16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | kFp16Infinity);
  if (magnitude < 0x38800000) {  // below 2^-14: multiples of 2^-24, which is an ulp of 0.5
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
  }
  const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112 << 10)));
}

}  // namespace orbitkv
