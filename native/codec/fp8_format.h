#pragma once

// What the kernels behind fp8.h share. All arithmetic is on the 16 bits of a value without its
// sign: a larger magnitude is a larger number in both source formats.

#include <array>
#include <cstddef>
#include <cstdint>

namespace orbitkv::fp8 {

inline constexpr uint16_t kMagnitude = 0x7fff;
inline constexpr uint8_t kNan = 0x7f;
/// Codes below this are subnormal: multiples of 2^-9.
inline constexpr uint8_t kFirstNormal = 8;

/// One source format, seen from E4M3.
struct Format {
  int mantissa_bits;
  int bias;

  /// Bits that rounding drops.
  constexpr int dropped() const { return mantissa_bits - 3; }
  /// What the exponent's bias differs by, in units of a code.
  constexpr int rebias() const { return (bias - 7) * 8; }
  /// The bits of (1 + eighths / 8) * 2^exponent.
  constexpr uint16_t Bits(int exponent, int eighths) const {
    return static_cast<uint16_t>(((exponent + bias) << mantissa_bits) |
                                 (eighths << (mantissa_bits - 3)));
  }
  constexpr uint16_t largest() const { return Bits(8, 6); }           // 448
  constexpr uint16_t smallest_normal() const { return Bits(-6, 0); }  // 2^-6

  /// thresholds()[n]: a subnormal magnitude above it rounds to at least n + 1. They are the ties
  /// (n + 1/2) * 2^-9; a tie goes to the even neighbour, so every second one is just below it.
  constexpr std::array<uint16_t, 8> thresholds() const {
    return {Bits(-10, 0),                             // 0.5: tie to 0
            static_cast<uint16_t>(Bits(-9, 4) - 1),   // 1.5: tie to 2
            Bits(-8, 2),                              // 2.5: tie to 2
            static_cast<uint16_t>(Bits(-8, 6) - 1),   // 3.5: tie to 4
            Bits(-7, 1),                              // 4.5: tie to 4
            static_cast<uint16_t>(Bits(-7, 3) - 1),   // 5.5: tie to 6
            Bits(-7, 5),                              // 6.5: tie to 6
            static_cast<uint16_t>(Bits(-7, 7) - 1)};  // 7.5: tie to 8, the smallest normal
  }
  /// The bits of n * 2^-9.
  constexpr std::array<uint16_t, 8> subnormals() const {
    return {0,           Bits(-9, 0), Bits(-8, 0), Bits(-8, 4),
            Bits(-7, 0), Bits(-7, 2), Bits(-7, 4), Bits(-7, 6)};
  }
};

inline constexpr Format kBf16{7, 127};
inline constexpr Format kFp16{10, 15};
static_assert(kBf16.largest() == 0x43e0 && kFp16.largest() == 0x5f00);
static_assert(kBf16.smallest_normal() == 0x3c80 && kFp16.smallest_normal() == 0x2400);

/// The code of one value that is in range.
template <Format kFormat>
constexpr uint8_t EncodeOne(uint16_t value) {
  const uint16_t magnitude = value & kMagnitude;
  uint32_t code = 0;
  if (magnitude < kFormat.smallest_normal()) {
    for (const uint16_t threshold : kFormat.thresholds()) code += magnitude > threshold ? 1 : 0;
  } else {
    constexpr uint32_t kHalf = (1u << (kFormat.dropped() - 1)) - 1;
    const uint32_t odd = (magnitude >> kFormat.dropped()) & 1;
    code = ((magnitude + kHalf + odd) >> kFormat.dropped()) - kFormat.rebias();
  }
  return static_cast<uint8_t>(code | ((value >> 8) & 0x80));
}

/// The value of one code that is not NaN.
template <Format kFormat>
constexpr uint16_t DecodeOne(uint8_t code) {
  const uint16_t magnitude = code & 0x7f;
  const uint16_t bits =
      magnitude < kFirstNormal
          ? kFormat.subnormals()[magnitude]
          : static_cast<uint16_t>((magnitude + kFormat.rebias()) << kFormat.dropped());
  return static_cast<uint16_t>(bits | ((code & 0x80) << 8));
}

#if defined(__x86_64__)
bool EncodeBf16Avx2(const uint8_t* values, size_t count, uint8_t* codes) noexcept;
bool DecodeBf16Avx2(const uint8_t* codes, size_t count, uint8_t* values) noexcept;
bool EncodeFp16Avx2(const uint8_t* values, size_t count, uint8_t* codes) noexcept;
bool DecodeFp16Avx2(const uint8_t* codes, size_t count, uint8_t* values) noexcept;
bool EncodeBf16Avx512(const uint8_t* values, size_t count, uint8_t* codes) noexcept;
bool DecodeBf16Avx512(const uint8_t* codes, size_t count, uint8_t* values) noexcept;
bool EncodeFp16Avx512(const uint8_t* values, size_t count, uint8_t* codes) noexcept;
bool DecodeFp16Avx512(const uint8_t* codes, size_t count, uint8_t* values) noexcept;
bool DecodeBf16Vbmi(const uint8_t* codes, size_t count, uint8_t* values) noexcept;
bool DecodeFp16Vbmi(const uint8_t* codes, size_t count, uint8_t* values) noexcept;
#endif

/// The tails of the vector kernels.
template <Format kFormat>
bool EncodeTail(const uint8_t* values, size_t count, uint8_t* codes) noexcept {
  uint16_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    uint16_t value;
    __builtin_memcpy(&value, values + 2 * i, sizeof value);
    const uint16_t magnitude = value & kMagnitude;
    largest = magnitude > largest ? magnitude : largest;
    codes[i] = EncodeOne<kFormat>(value);
  }
  return largest <= kFormat.largest();
}

template <Format kFormat>
bool DecodeTail(const uint8_t* codes, size_t count, uint8_t* values) noexcept {
  bool sound = true;
  for (size_t i = 0; i < count; ++i) {
    const uint16_t value = DecodeOne<kFormat>(codes[i]);
    __builtin_memcpy(values + 2 * i, &value, sizeof value);
    sound = sound && (codes[i] & kNan) != kNan;
  }
  return sound;
}

}  // namespace orbitkv::fp8
