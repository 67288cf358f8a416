#pragma once

// TurboQuant of items: vectors of keys, of values, or of both in turns.

#include <cstdint>

#include "codec/lanes.h"
#include "codec/turboquant.h"
#include "codec/turboquant_keys.h"
#include "codec/turboquant_values.h"
#include "codec/turboquant_work.h"

namespace orbitkv::turboquant {

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
