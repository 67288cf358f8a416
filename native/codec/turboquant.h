#pragma once

// TurboQuant of head vectors: K by signs, a Walsh-Hadamard transform and the Lloyd-Max levels of a
// Gaussian with the norm beside them, V by uniform levels between its least and its largest value.
// The algorithm is docs/internals/codecs.md; src/shared/codec/turboquant.ts is the same in plain
// TypeScript. Every variant, and the kernels of a GPU, give the same bytes: all arithmetic is IEEE
// binary32 in one fixed order, without fused multiply-adds.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "codec/narrow_floats.h"

namespace orbitkv {

enum class TurboquantRole : uint8_t { kKeys, kValues, kPacked };

/// How vectors lie in an item: `head_dim` (32, 64, 128 or 256) values each, coded by `bits` (3 or
/// 4); packed: a key, then its value. `seed` is of the rotation's signs.
struct TurboquantShape {
  NarrowFloat scalar;
  TurboquantRole role;
  uint32_t bits;
  uint32_t head_dim;
  uint32_t seed;

  bool IsKnown() const noexcept {
    return (bits == 3 || bits == 4) && head_dim >= 32 && head_dim <= 256 &&
           (head_dim & (head_dim - 1)) == 0;
  }
  uint64_t vectors() const noexcept { return role == TurboquantRole::kPacked ? 2 : 1; }
  /// Of what repeats in an item: a vector, or a key and its value.
  uint64_t logical_bytes() const noexcept { return vectors() * head_dim * 2; }
  /// The same, coded: codes, then a norm (K), or a scale and a minimum (V), each of two bytes.
  uint64_t stored_bytes() const noexcept {
    const uint64_t trailers[] = {2, 4, 6};
    return vectors() * (head_dim * bits / 8) + trailers[static_cast<size_t>(role)];
  }
};

enum class TurboquantVariant : uint8_t {
  kPortable,  // any processor, 4 lanes
  kAvx2,      // x86: 8 lanes
  kAvx512     // x86: AVX-512 F, BW, DQ and VL, 16 lanes
};

inline constexpr TurboquantVariant kTurboquantVariants[] = {
    TurboquantVariant::kPortable, TurboquantVariant::kAvx2, TurboquantVariant::kAvx512};

std::string_view TurboquantName(TurboquantVariant variant) noexcept;
bool TurboquantAvailable(TurboquantVariant variant) noexcept;

/// The widest variant of this processor.
TurboquantVariant TurboquantBest() noexcept;

/// Encodes `count` times logical_bytes() into `count` times stored_bytes(). False when a vector
/// cannot be coded: a value, a range or a norm is not finite or leaves FP16's range; then `stored`
/// means nothing. Neither pointer needs alignment; the ranges may not overlap. Requires a known
/// shape and TurboquantAvailable(variant).
bool TurboquantEncode(TurboquantVariant variant, const TurboquantShape& shape, const void* values,
                      uint64_t count, uint8_t* stored) noexcept;

/// The other direction. False when a norm, scale or minimum is not finite, which no encoder writes:
/// then `values` mean nothing. As TurboquantEncode otherwise.
bool TurboquantDecode(TurboquantVariant variant, const TurboquantShape& shape,
                      const uint8_t* stored, uint64_t count, void* values) noexcept;

}  // namespace orbitkv
