#pragma once

// Registers of W floats and what lies beside them, for every instruction set: a function here is
// inlined where it is called, and compiled for the target of that function.

#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

// A product that is added must be rounded first.
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("fp-contract=off")
// Registers wider than the processor's are only spoken of in functions that have them.
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

#define ORBITKV_INLINE [[gnu::always_inline]] inline

namespace orbitkv::turboquant {

static_assert(std::endian::native == std::endian::little);

/// W lanes of each type.
template <int W>
struct Lanes {
  typedef float Floats __attribute__((vector_size(W * 4)));
  typedef int32_t Ints __attribute__((vector_size(W * 4)));
  typedef uint32_t Words __attribute__((vector_size(W * 4)));
  typedef uint16_t Halves __attribute__((vector_size(W * 2)));
  typedef uint8_t Bytes __attribute__((vector_size(W)));
};

template <class T>
ORBITKV_INLINE T Load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
ORBITKV_INLINE void Store(void* to, const T& value) {
  std::memcpy(to, &value, sizeof value);
}

/// Bytes as whole numbers of 32 bits and back, by way of 16 where a compiler knows no instruction
/// for both steps at once.
template <int W>
ORBITKV_INLINE typename Lanes<W>::Ints FromBytes(const typename Lanes<W>::Bytes& bytes) {
  using L = Lanes<W>;
  return __builtin_convertvector(__builtin_convertvector(bytes, typename L::Halves),
                                 typename L::Ints);
}

template <int W>
ORBITKV_INLINE typename Lanes<W>::Bytes ToBytes(const typename Lanes<W>::Ints& codes) {
  using L = Lanes<W>;
  if constexpr (W > 8) return __builtin_convertvector(codes, typename L::Bytes);
  return __builtin_convertvector(__builtin_convertvector(codes, typename L::Halves),
                                 typename L::Bytes);
}

template <class To, class From>
ORBITKV_INLINE To Bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

/// Lane i of the result is lane i ^ H.
template <int W, int H, int... I>
ORBITKV_INLINE auto Exchanged(const typename Lanes<W>::Floats& v,
                              std::integer_sequence<int, I...>) {
#if defined(__clang__)
  return __builtin_shufflevector(v, v, (I ^ H)...);
#else
  return __builtin_shuffle(v, typename Lanes<W>::Ints{(I ^ H)...});
#endif
}
template <int W, int H>
ORBITKV_INLINE auto Exchanged(const typename Lanes<W>::Floats& v) {
  return Exchanged<W, H>(v, std::make_integer_sequence<int, W>{});
}

/// All bits where lane i has bit H of its number, else none.
template <int W, int H, int... I>
ORBITKV_INLINE typename Lanes<W>::Words Odd(std::integer_sequence<int, I...>) {
  return typename Lanes<W>::Words{((I & H) != 0 ? 0x80000000u : 0u)...};
}

}  // namespace orbitkv::turboquant
