#if defined(__x86_64__)

// CRC by folding. A register of message bytes is moved D bits towards the end of the message by
// multiplying its two 64-bit halves with x^(D+32) and x^(D-32) mod P and adding the result to the
// bytes that stand there. Several registers run side by side to hide the latency of the multiplier.
// What is left, one 16-byte register that has the same remainder as everything before it, goes
// through the tables as if it were message bytes.
//
// Every function carries its own target attribute, so that the addon runs on processors without
// these instructions.

#include <immintrin.h>

#if defined(__GNUC__) && !defined(__clang__)
// GCC's own AVX-512 headers read their "undefined" placeholder operands.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "codec/crc32_kernels.h"

namespace orbitkv::crc32_kernels {
namespace {

// x^n mod P, reflected, shifted left once: the product of two reflected numbers comes out one bit
// short.
constexpr uint64_t Power(int n) {
  uint32_t value = 0x80000000u;
  for (int i = 0; i < n; ++i) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
  return static_cast<uint64_t>(value) << 1;
}

static_assert(Power(544) == 0x154442bd4 && Power(480) == 0x1c6e41596);
static_assert(Power(160) == 0x1751997d0 && Power(96) == 0x0ccaa009e && Power(64) == 0x163cd6124);

// The factors that move 128 bits by `bits`: low half first, because its bytes stand further from
// the end.
struct Fold {
  explicit constexpr Fold(int bits)
      : low(static_cast<long long>(Power(bits + 32))),
        high(static_cast<long long>(Power(bits - 32))) {}
  long long low;
  long long high;
};

constexpr Fold kBy128(128), kBy256(256), kBy384(384), kBy512(512), kBy1024(1024), kBy2048(2048);

#define ORBITKV_PCLMUL __attribute__((target("pclmul,sse4.1")))
#define ORBITKV_VPCLMUL __attribute__((target("vpclmulqdq,pclmul,avx2")))
#define ORBITKV_VPCLMUL512 __attribute__((target("vpclmulqdq,pclmul,avx512f,avx2")))

ORBITKV_PCLMUL inline __m128i Factors(Fold by) { return _mm_set_epi64x(by.high, by.low); }

ORBITKV_PCLMUL inline __m128i Load128(const uint8_t* bytes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

ORBITKV_PCLMUL inline __m128i Fold128(__m128i value, __m128i by, __m128i onto) {
  const __m128i low = _mm_clmulepi64_si128(value, by, 0x00);
  const __m128i high = _mm_clmulepi64_si128(value, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), onto);
}

// Folds the remaining whole 16-byte blocks onto `value`, then finishes through the tables.
ORBITKV_PCLMUL inline uint32_t Finish(__m128i value, const uint8_t* bytes, size_t count) {
  const __m128i by128 = Factors(kBy128);
  for (; count >= 16; bytes += 16, count -= 16) value = Fold128(value, by128, Load128(bytes));
  alignas(16) uint8_t rest[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(rest), value);
  return Portable(Portable(0, rest, sizeof rest), bytes, count);
}

ORBITKV_VPCLMUL inline __m256i Load256(const uint8_t* bytes) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
}

ORBITKV_VPCLMUL inline __m256i Fold256(__m256i value, __m256i by, __m256i onto) {
  const __m256i low = _mm256_clmulepi64_epi128(value, by, 0x00);
  const __m256i high = _mm256_clmulepi64_epi128(value, by, 0x11);
  return _mm256_xor_si256(_mm256_xor_si256(low, high), onto);
}

ORBITKV_VPCLMUL512 inline __m512i Load512(const uint8_t* bytes) {
  return _mm512_loadu_si512(bytes);
}

ORBITKV_VPCLMUL512 inline __m512i Fold512(__m512i value, __m512i by, __m512i onto) {
  const __m512i low = _mm512_clmulepi64_epi128(value, by, 0x00);
  const __m512i high = _mm512_clmulepi64_epi128(value, by, 0x11);
  return _mm512_ternarylogic_epi64(low, high, onto, 0x96);
}

}  // namespace

ORBITKV_PCLMUL uint32_t Pclmul(uint32_t state, const uint8_t* bytes, size_t count) noexcept {
  if (count < 64) return Portable(state, bytes, count);
  __m128i a = _mm_xor_si128(Load128(bytes), _mm_cvtsi32_si128(static_cast<int>(state)));
  __m128i b = Load128(bytes + 16);
  __m128i c = Load128(bytes + 32);
  __m128i d = Load128(bytes + 48);
  const __m128i by512 = Factors(kBy512);
  for (bytes += 64, count -= 64; count >= 64; bytes += 64, count -= 64) {
    a = Fold128(a, by512, Load128(bytes));
    b = Fold128(b, by512, Load128(bytes + 16));
    c = Fold128(c, by512, Load128(bytes + 32));
    d = Fold128(d, by512, Load128(bytes + 48));
  }
  const __m128i by128 = Factors(kBy128);
  return Finish(Fold128(Fold128(Fold128(a, by128, b), by128, c), by128, d), bytes, count);
}

ORBITKV_VPCLMUL uint32_t Vpclmul(uint32_t state, const uint8_t* bytes, size_t count) noexcept {
  if (count < 256) return Pclmul(state, bytes, count);
  const __m128i first = _mm_cvtsi32_si128(static_cast<int>(state));
  __m256i a = _mm256_xor_si256(Load256(bytes), _mm256_zextsi128_si256(first));
  __m256i b = Load256(bytes + 32);
  __m256i c = Load256(bytes + 64);
  __m256i d = Load256(bytes + 96);
  const __m256i by1024 = _mm256_broadcastsi128_si256(Factors(kBy1024));
  for (bytes += 128, count -= 128; count >= 128; bytes += 128, count -= 128) {
    a = Fold256(a, by1024, Load256(bytes));
    b = Fold256(b, by1024, Load256(bytes + 32));
    c = Fold256(c, by1024, Load256(bytes + 64));
    d = Fold256(d, by1024, Load256(bytes + 96));
  }
  const __m256i by256 = _mm256_broadcastsi128_si256(Factors(kBy256));
  const __m256i sum = Fold256(Fold256(Fold256(a, by256, b), by256, c), by256, d);
  const __m128i value =
      Fold128(_mm256_castsi256_si128(sum), Factors(kBy128), _mm256_extracti128_si256(sum, 1));
  return Finish(value, bytes, count);
}

ORBITKV_VPCLMUL512 uint32_t Vpclmul512(uint32_t state, const uint8_t* bytes,
                                       size_t count) noexcept {
  if (count < 512) return Vpclmul(state, bytes, count);
  const __m128i first = _mm_cvtsi32_si128(static_cast<int>(state));
  __m512i a = _mm512_xor_si512(Load512(bytes), _mm512_zextsi128_si512(first));
  __m512i b = Load512(bytes + 64);
  __m512i c = Load512(bytes + 128);
  __m512i d = Load512(bytes + 192);
  const __m512i by2048 = _mm512_broadcast_i32x4(Factors(kBy2048));
  for (bytes += 256, count -= 256; count >= 256; bytes += 256, count -= 256) {
    a = Fold512(a, by2048, Load512(bytes));
    b = Fold512(b, by2048, Load512(bytes + 64));
    c = Fold512(c, by2048, Load512(bytes + 128));
    d = Fold512(d, by2048, Load512(bytes + 192));
  }
  const __m512i by512 = _mm512_broadcast_i32x4(Factors(kBy512));
  const __m512i sum = Fold512(Fold512(Fold512(a, by512, b), by512, c), by512, d);
  __m128i value = _mm512_extracti32x4_epi32(sum, 3);
  value = Fold128(_mm512_extracti32x4_epi32(sum, 2), Factors(kBy128), value);
  value = Fold128(_mm512_extracti32x4_epi32(sum, 1), Factors(kBy256), value);
  value = Fold128(_mm512_castsi512_si128(sum), Factors(kBy384), value);
  return Finish(value, bytes, count);
}

}  // namespace orbitkv::crc32_kernels

#endif
