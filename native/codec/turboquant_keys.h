#pragma once

// TurboQuant of keys: a vector of length one, turned by signs and a Walsh-Hadamard transform, each
// value to the nearest level; then the norm. The order of every sum is that of the format,
// whatever W is.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "codec/lanes.h"
#include "codec/turboquant_bits.h"
#include "codec/turboquant_format.h"
#include "codec/turboquant_work.h"

namespace orbitkv::turboquant {

/// The sum of x[i]^2: halves are added until one is left.
template <int W>
ORBITKV_INLINE float SquareSum(Work& work, uint32_t dim) {
  using Floats = typename Lanes<W>::Floats;
  for (uint32_t i = 0; i < dim; i += W) {
    const auto x = Load<Floats>(work.x + i);
    Store(work.sums + i, x * x);
  }
  for (uint32_t half = dim / 2; half >= W; half /= 2)
    for (uint32_t i = 0; i < half; i += W)
      Store(work.sums + i, Load<Floats>(work.sums + i) + Load<Floats>(work.sums + i + half));
  auto sum = Load<Floats>(work.sums);
  if constexpr (W > 8) sum += Exchanged<W, 8>(sum);
  if constexpr (W > 4) sum += Exchanged<W, 4>(sum);
  sum += Exchanged<W, 2>(sum);
  sum += Exchanged<W, 1>(sum);
  return sum[0];
}

/// One step of the transform inside a register: lane a becomes a + b, lane b becomes a - b.
template <int W, int H>
ORBITKV_INLINE void Butterfly(typename Lanes<W>::Floats& v) {
  using L = Lanes<W>;
  const auto odd = Odd<W, H>(std::make_integer_sequence<int, W>{});
  v = Exchanged<W, H>(v) + Bits<typename L::Floats>(Bits<typename L::Words>(v) ^ odd);
}

/// The Walsh-Hadamard transform of x, in place and without scaling.
template <int W>
ORBITKV_INLINE void Transform(Work& work, uint32_t dim) {
  using Floats = typename Lanes<W>::Floats;
  for (uint32_t i = 0; i < dim; i += W) {
    auto v = Load<Floats>(work.x + i);
    Butterfly<W, 1>(v);
    Butterfly<W, 2>(v);
    if constexpr (W > 4) Butterfly<W, 4>(v);
    if constexpr (W > 8) Butterfly<W, 8>(v);
    Store(work.x + i, v);
  }
  for (uint32_t half = W; half < dim; half *= 2)
    for (uint32_t first = 0; first < dim; first += 2 * half)
      for (uint32_t i = first; i < first + half; i += W) {
        const auto a = Load<Floats>(work.x + i);
        const auto b = Load<Floats>(work.x + i + half);
        Store(work.x + i, a + b);
        Store(work.x + i + half, a - b);
      }
}

/// Codes of x: of each, how many boundaries are below it.
template <int W, uint32_t kBits>
ORBITKV_INLINE void Quantize(Work& work, uint32_t dim) {
  using L = Lanes<W>;
  using Ints = typename L::Ints;
#if !defined(__clang__)
  if constexpr ((1 << kBits) <= W) {  // by halving, with the boundaries in a register
    constexpr int kHalf = 1 << (kBits - 1);
    alignas(64) float all[W] = {};
    for (int i = 0; i < kHalf - 1; ++i) {
      all[kHalf + i] = Levels<kBits>::kBoundaries[i];
      all[kHalf - 2 - i] = -Levels<kBits>::kBoundaries[i];
    }
    const auto boundaries = Load<typename L::Floats>(all);
    for (uint32_t i = 0; i < dim; i += W) {
      const auto z = Load<typename L::Floats>(work.x + i);
      Ints code = (z > 0.0f) & kHalf;
      for (int step = kHalf / 2; step > 0; step /= 2)
        code += (z > __builtin_shuffle(boundaries, code + (step - 1))) & step;
      Store(work.codes + i, ToBytes<W>(code));
    }
    return;
  }
#endif
  for (uint32_t i = 0; i < dim; i += W) {
    const auto z = Load<typename L::Floats>(work.x + i);
    Ints code = -(z > 0.0f);
    for (const float boundary : Levels<kBits>::kBoundaries)
      code -= (z > boundary) + (z > -boundary);
    Store(work.codes + i, ToBytes<W>(code));
  }
}

/// Whether every value of x is a zero, of either sign.
template <int W>
ORBITKV_INLINE bool IsNothing(const Work& work, uint32_t dim) {
  typename Lanes<W>::Words all{};
  for (uint32_t i = 0; i < dim; i += W) all |= Load<typename Lanes<W>::Words>(work.x + i);
  uint32_t any = 0;
  for (int lane = 0; lane < W; ++lane) any |= all[lane];
  return (any & 0x7fffffffu) == 0;
}

/// Codes of a key; null when it has none.
template <int W, uint32_t kBits>
ORBITKV_INLINE uint8_t* EncodeKey(Work& work, uint32_t dim, uint8_t* stored) {
  using L = Lanes<W>;
  using Floats = typename L::Floats;
  const float norm = std::sqrt(SquareSum<W>(work, dim));
  if (!(norm < 65520.0f)) return nullptr;
  const uint16_t narrow = NarrowToFp16(norm);
  // What FP16 has no norm for, or binary32 no squares, would come back as nothing.
  if (narrow == 0 && !IsNothing<W>(work, dim)) return nullptr;
  if (norm > 0) {
    for (uint32_t i = 0; i < dim; i += W) {
      const Floats unit = Load<Floats>(work.x + i) / norm;
      Store(work.x + i, Bits<typename L::Words>(unit) ^ Load<typename L::Words>(work.signs + i));
    }
    Transform<W>(work, dim);
  } else {
    std::memset(work.x, 0, dim * sizeof work.x[0]);
  }
  Quantize<W, kBits>(work, dim);
  return StoreFp16(Pack<kBits>(work, dim, stored), narrow);
}

/// The levels of codes, to x.
template <int W, uint32_t kBits>
ORBITKV_INLINE void Centroids(Work& work, uint32_t dim) {
  using L = Lanes<W>;
  constexpr int kHalf = 1 << (kBits - 1), kLevels = 2 * kHalf;
  alignas(64) float levels[kLevels < W ? W : kLevels] = {};
  for (int i = 0; i < kHalf; ++i) {
    levels[kHalf + i] = Levels<kBits>::kCentroids[i];
    levels[kHalf - 1 - i] = -Levels<kBits>::kCentroids[i];
  }
#if !defined(__clang__)
  // In registers, where a shuffle looks levels up.
  if constexpr (kLevels <= 2 * W && W > 4) {
    const auto low = Load<typename L::Floats>(levels);
    const auto high = Load<typename L::Floats>(levels + (kLevels > W ? W : 0));
    for (uint32_t i = 0; i < dim; i += W) {
      const auto codes = Load<typename L::Bytes>(work.codes + i);
      const auto places = FromBytes<W>(codes);
      Store(work.x + i,
            kLevels > W ? __builtin_shuffle(low, high, places) : __builtin_shuffle(low, places));
    }
    return;
  }
#endif
  for (uint32_t i = 0; i < dim; ++i) work.x[i] = levels[work.codes[i]];
}

template <int W, uint32_t kBits>
ORBITKV_INLINE const uint8_t* DecodeKey(const uint8_t* stored, uint32_t dim, Work& work) {
  using L = Lanes<W>;
  using Floats = typename L::Floats;
  stored = Unpack<kBits>(stored, dim, work);
  const auto narrow = Load<uint16_t>(stored);
  if (!IsFiniteFp16(narrow)) return nullptr;
  const float norm = WidenFp16(narrow);
  if (norm == 0) {
    std::memset(work.x, 0, dim * sizeof work.x[0]);
    return stored + sizeof narrow;
  }
  Centroids<W, kBits>(work, dim);
  const float length = std::sqrt(SquareSum<W>(work, dim));
  const float gain = norm / (length * std::sqrt(static_cast<float>(dim)));
  Transform<W>(work, dim);
  for (uint32_t i = 0; i < dim; i += W) {
    const Floats scaled = Load<Floats>(work.x + i) * gain;
    Store(work.x + i, Bits<typename L::Words>(scaled) ^ Load<typename L::Words>(work.signs + i));
  }
  return stored + sizeof narrow;
}

}  // namespace orbitkv::turboquant
