#pragma once

// Vectors of TurboQuant in registers of W floats, for every instruction set: what a file's own
// functions with a target attribute call is inlined there and compiled for that target.
//
// A vector is widened into `x`, coded or decoded there, and narrowed again; `x` stays in the
// nearest cache.

#include <cstdint>
#include <cstring>

#include "codec/lanes.h"
#include "codec/turboquant.h"
#include "codec/turboquant_format.h"

namespace orbitkv::turboquant {

inline constexpr uint32_t kDimMax = 256;

/// The working place of one vector, and what its item's vectors share.
struct Work {
  alignas(64) float x[kDimMax];
  alignas(64) float sums[kDimMax];
  alignas(64) uint32_t signs[kDimMax];
  alignas(64) uint8_t codes[kDimMax];

  ORBITKV_INLINE void Sign(uint32_t seed, uint32_t dim) {
    for (uint32_t i = 0; i < dim; ++i) signs[i] = SignBit(seed, i);
  }
};

/// Widens a vector to x; false when a value is not finite.
template <int W, NarrowFloat kScalar>
ORBITKV_INLINE bool Widen(const uint8_t* values, uint32_t dim, Work& work) {
  using L = Lanes<W>;
  constexpr uint16_t kInfinity = kScalar == NarrowFloat::kBf16 ? kBf16Infinity : kFp16Infinity;
  auto broken = typename L::Halves{} != 0;
  for (uint32_t i = 0; i < dim; i += W) {
    const auto bits = Load<typename L::Halves>(values + 2 * i);
    broken |= (bits & static_cast<uint16_t>(kNarrowMagnitude)) >= kInfinity;
    const auto wide = __builtin_convertvector(bits, typename L::Words);
    if constexpr (kScalar == NarrowFloat::kBf16) {
      Store(work.x + i, wide << 16);
    } else {
      const auto magnitude = Bits<typename L::Floats>((wide & kNarrowMagnitude) << 13) * 0x1p112f;
      Store(work.x + i, Bits<typename L::Words>(magnitude) | ((wide & 0x8000u) << 16));
    }
  }
  uint64_t any[W / 4];
  std::memcpy(any, &broken, sizeof any);
  uint64_t all = 0;
  for (const uint64_t part : any) all |= part;
  return all == 0;
}

/// Narrows x to a vector; what would become infinite becomes the largest finite value.
template <int W, NarrowFloat kScalar>
ORBITKV_INLINE void Narrow(const Work& work, uint32_t dim, uint8_t* values) {
  using L = Lanes<W>;
  using Words = typename L::Words;
  for (uint32_t i = 0; i < dim; i += W) {
    const auto bits = Load<Words>(work.x + i);
    const Words sign = (bits >> 16) & 0x8000u;
    const Words magnitude = bits & 0x7fffffffu;
    Words narrow;
    if constexpr (kScalar == NarrowFloat::kBf16) {
      narrow = (magnitude + 0x7fffu + ((magnitude >> 16) & 1u)) >> 16;
      narrow = narrow < kBf16Infinity ? narrow : Words{} + (kBf16Infinity - 1);
    } else {
      const Words normal = ((magnitude + 0xfffu + ((magnitude >> 13) & 1u)) >> 13) - (112u << 10);
      const Words small = Bits<Words>(Bits<typename L::Floats>(magnitude) + 0.5f) - 0x3f000000u;
      narrow = magnitude < 0x38800000u ? small : normal;
      narrow = magnitude < 0x477ff000u ? narrow : Words{} + (kFp16Infinity - 1);
    }
    Store(values + 2 * i, __builtin_convertvector(narrow | sign, typename L::Halves));
  }
}

}  // namespace orbitkv::turboquant
