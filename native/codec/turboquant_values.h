#pragma once

// TurboQuant of values: equal steps from the least of a vector to its greatest; then step and
// least.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "codec/lanes.h"
#include "codec/turboquant_bits.h"
#include "codec/turboquant_format.h"
#include "codec/turboquant_work.h"

namespace orbitkv::turboquant {

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

}  // namespace orbitkv::turboquant
