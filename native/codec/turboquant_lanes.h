#pragma once

// TurboQuant over registers of W floats, for every instruction set: what a file's own functions
// with a target attribute call is inlined there and compiled for that target. The order of every
// sum is that of the format, whatever W is.
//
// A vector is widened into `x`, coded or decoded there, and narrowed again; `x` stays in the
// nearest cache.

#include <cmath>
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

template <int W, bool kLeast>
ORBITKV_INLINE float Extreme(const Work& work, uint32_t dim) {
  using Floats = typename Lanes<W>::Floats;
  const auto better = [](const Floats& a, const Floats& b) __attribute__((always_inline)) {
    return kLeast ? (a < b ? a : b) : (a > b ? a : b);
  };
  auto best = Load<Floats>(work.x);
  for (uint32_t i = W; i < dim; i += W) best = better(Load<Floats>(work.x + i), best);
  if constexpr (W > 8) best = better(best, Exchanged<W, 8>(best));
  if constexpr (W > 4) best = better(best, Exchanged<W, 4>(best));
  best = better(best, Exchanged<W, 2>(best));
  best = better(best, Exchanged<W, 1>(best));
  return best[0] + 0.0f;  // -0 counts as +0
}

template <int W, uint32_t kBits>
ORBITKV_INLINE uint8_t* EncodeValue(Work& work, uint32_t dim, uint8_t* stored) {
  using L = Lanes<W>;
  constexpr int32_t kTop = (1 << kBits) - 1;
  const float least = Extreme<W, true>(work, dim);
  const float range = Extreme<W, false>(work, dim) - least;
  float scale = range / static_cast<float>(kTop);
  if (scale < kScaleMin) scale = kScaleMin;
  if (!(std::fabs(least) < 65520.0f) || !(scale < 65520.0f)) return nullptr;
  const uint16_t narrow = NarrowToFp16(scale);
  if (narrow == 0 && range > 0) return nullptr;
  for (uint32_t i = 0; i < dim; i += W) {
    const auto level = (Load<typename L::Floats>(work.x + i) - least) / scale + 0.5f;
    // No level is below 0.5, so that cutting is rounding down.
    auto code = __builtin_convertvector(level, typename L::Ints);
    code = code > kTop ? typename L::Ints{} + kTop : code;
    Store(work.codes + i, ToBytes<W>(code));
  }
  return StoreFp16(StoreFp16(Pack<kBits>(work, dim, stored), narrow), NarrowToFp16(least));
}

template <int W, uint32_t kBits>
ORBITKV_INLINE const uint8_t* DecodeValue(const uint8_t* stored, uint32_t dim, Work& work) {
  using L = Lanes<W>;
  stored = Unpack<kBits>(stored, dim, work);
  uint16_t narrow[2];
  std::memcpy(narrow, stored, sizeof narrow);
  if (!IsFiniteFp16(narrow[0]) || !IsFiniteFp16(narrow[1])) return nullptr;
  const float scale = WidenFp16(narrow[0]), least = WidenFp16(narrow[1]);
  for (uint32_t i = 0; i < dim; i += W) {
    const auto codes = Load<typename L::Bytes>(work.codes + i);
    const auto levels = __builtin_convertvector(FromBytes<W>(codes), typename L::Floats);
    Store(work.x + i, levels * scale + least);
  }
  return stored + sizeof narrow;
}

template <int W, NarrowFloat kScalar, uint32_t kBits>
ORBITKV_INLINE bool EncodeItem(const TurboquantShape& shape, const uint8_t* values, uint64_t count,
                               uint8_t* stored) {
  const uint32_t dim = shape.head_dim;
  const bool keys = shape.role != TurboquantRole::kValues;
  const bool packed = shape.role == TurboquantRole::kPacked;
  Work work;
  work.Sign(shape.seed, dim);
  for (uint64_t vector = 0; vector < count * shape.vectors(); ++vector, values += 2 * dim) {
    if (!Widen<W, kScalar>(values, dim, work)) return false;
    const bool key = packed ? vector % 2 == 0 : keys;
    stored =
        key ? EncodeKey<W, kBits>(work, dim, stored) : EncodeValue<W, kBits>(work, dim, stored);
    if (stored == nullptr) return false;
  }
  return true;
}

template <int W, NarrowFloat kScalar, uint32_t kBits>
ORBITKV_INLINE bool DecodeItem(const TurboquantShape& shape, const uint8_t* stored, uint64_t count,
                               uint8_t* values) {
  const uint32_t dim = shape.head_dim;
  const bool keys = shape.role != TurboquantRole::kValues;
  const bool packed = shape.role == TurboquantRole::kPacked;
  Work work;
  work.Sign(shape.seed, dim);
  for (uint64_t vector = 0; vector < count * shape.vectors(); ++vector, values += 2 * dim) {
    const bool key = packed ? vector % 2 == 0 : keys;
    stored =
        key ? DecodeKey<W, kBits>(stored, dim, work) : DecodeValue<W, kBits>(stored, dim, work);
    if (stored == nullptr) return false;
    Narrow<W, kScalar>(work, dim, values);
  }
  return true;
}

using Encoder = bool (*)(const TurboquantShape&, const uint8_t*, uint64_t, uint8_t*) noexcept;
using Decoder = bool (*)(const TurboquantShape&, const uint8_t*, uint64_t, uint8_t*) noexcept;

/// The functions of one variant: [scalar][bits - 3].
struct Kernels {
  Encoder encode[2][2];
  Decoder decode[2][2];
};

#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
#endif

}  // namespace orbitkv::turboquant

/// Defines the kernels of W lanes, each function with `target`.
#define ORBITKV_TURBOQUANT_KERNELS(name, W, target)                                             \
  namespace {                                                                                   \
  template <NarrowFloat kScalar, uint32_t kBits>                                                \
  target bool name##Encode(const TurboquantShape& shape, const uint8_t* values, uint64_t count, \
                           uint8_t* stored) noexcept {                                          \
    return EncodeItem<W, kScalar, kBits>(shape, values, count, stored);                         \
  }                                                                                             \
  template <NarrowFloat kScalar, uint32_t kBits>                                                \
  target bool name##Decode(const TurboquantShape& shape, const uint8_t* stored, uint64_t count, \
                           uint8_t* values) noexcept {                                          \
    return DecodeItem<W, kScalar, kBits>(shape, stored, count, values);                         \
  }                                                                                             \
  }                                                                                             \
  const Kernels name##Kernels = {                                                               \
      {{name##Encode<NarrowFloat::kBf16, 3>, name##Encode<NarrowFloat::kBf16, 4>},              \
       {name##Encode<NarrowFloat::kFp16, 3>, name##Encode<NarrowFloat::kFp16, 4>}},             \
      {{name##Decode<NarrowFloat::kBf16, 3>, name##Decode<NarrowFloat::kBf16, 4>},              \
       {name##Decode<NarrowFloat::kFp16, 3>, name##Decode<NarrowFloat::kFp16, 4>}}};
