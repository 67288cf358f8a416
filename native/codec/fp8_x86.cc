#if defined(__x86_64__)

// FP8 in 16-bit lanes. A normal magnitude is rounded by an addition and moved by a shift; a
// subnormal one counts the thresholds that it passes, which needs no shift by a variable amount.
// Decoding looks codes up in tables that stay in registers.
//
// Every function carries its own target attribute, so that the addon runs on processors without
// these instructions.

#include <immintrin.h>

#if defined(__GNUC__) && !defined(__clang__)
// GCC's own AVX-512 headers read their "undefined" placeholder operands.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "codec/fp8_format.h"

namespace orbitkv::fp8 {
namespace {

#define ORBITKV_AVX2 __attribute__((target("avx2")))
#define ORBITKV_AVX512 __attribute__((target("avx512f,avx512bw,avx2")))
#define ORBITKV_VBMI __attribute__((target("avx512vbmi,avx512f,avx512bw,avx2")))

constexpr short Lane(int bits) { return static_cast<short>(bits); }

// AVX2: 16 values a register.

ORBITKV_AVX2 inline __m256i Load256(const uint8_t* bytes) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
}

// Codes of 16 values in 16-bit lanes, sign included. Magnitudes join `largest`.
template <Format kFormat>
ORBITKV_AVX2 inline __m256i Encode16(__m256i values, __m256i& largest) {
  const __m256i magnitude = _mm256_and_si256(values, _mm256_set1_epi16(Lane(kMagnitude)));
  largest = _mm256_max_epu16(largest, magnitude);
  constexpr int kHalf = (1 << (kFormat.dropped() - 1)) - 1;
  const __m256i odd =
      _mm256_and_si256(_mm256_srli_epi16(magnitude, kFormat.dropped()), _mm256_set1_epi16(1));
  const __m256i rounded =
      _mm256_add_epi16(_mm256_add_epi16(magnitude, odd), _mm256_set1_epi16(Lane(kHalf)));
  const __m256i normal = _mm256_sub_epi16(_mm256_srli_epi16(rounded, kFormat.dropped()),
                                          _mm256_set1_epi16(Lane(kFormat.rebias())));
  // A comparison that holds is -1.
  __m256i subnormal = _mm256_setzero_si256();
  for (const uint16_t threshold : kFormat.thresholds())
    subnormal = _mm256_sub_epi16(subnormal,
                                 _mm256_cmpgt_epi16(magnitude, _mm256_set1_epi16(Lane(threshold))));
  const __m256i small =
      _mm256_cmpgt_epi16(_mm256_set1_epi16(Lane(kFormat.smallest_normal())), magnitude);
  const __m256i sign = _mm256_and_si256(_mm256_srli_epi16(values, 8), _mm256_set1_epi16(0x80));
  return _mm256_or_si256(_mm256_blendv_epi8(normal, subnormal, small), sign);
}

template <Format kFormat>
ORBITKV_AVX2 inline bool InRange(__m256i largest) {
  const __m256i beyond = _mm256_subs_epu16(largest, _mm256_set1_epi16(Lane(kFormat.largest())));
  return _mm256_testz_si256(beyond, beyond) != 0;
}

// Values of 16 codes, which stand in 16-bit lanes.
template <Format kFormat>
ORBITKV_AVX2 inline __m256i Decode16(__m256i codes) {
  constexpr std::array<uint16_t, 8> kSubnormals = kFormat.subnormals();
  const __m256i table = _mm256_broadcastsi128_si256(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(kSubnormals.data())));
  const __m256i magnitude = _mm256_and_si256(codes, _mm256_set1_epi16(0x7f));
  const __m256i normal = _mm256_slli_epi16(
      _mm256_add_epi16(magnitude, _mm256_set1_epi16(Lane(kFormat.rebias()))), kFormat.dropped());
  // Bytes 2n and 2n + 1 of the table, in each lane.
  const __m256i places = _mm256_add_epi16(_mm256_mullo_epi16(magnitude, _mm256_set1_epi16(0x0202)),
                                          _mm256_set1_epi16(0x0100));
  const __m256i subnormal = _mm256_shuffle_epi8(table, places);
  const __m256i small = _mm256_cmpgt_epi16(_mm256_set1_epi16(kFirstNormal), magnitude);
  const __m256i sign = _mm256_slli_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(0x80)), 8);
  return _mm256_or_si256(_mm256_blendv_epi8(normal, subnormal, small), sign);
}

// AVX-512: 32 values a register.

ORBITKV_AVX512 inline __m512i Load512(const void* bytes) { return _mm512_loadu_si512(bytes); }

template <Format kFormat>
ORBITKV_AVX512 inline __m256i Encode32(__m512i values, __m512i& largest) {
  const __m512i magnitude = _mm512_and_si512(values, _mm512_set1_epi16(Lane(kMagnitude)));
  largest = _mm512_max_epu16(largest, magnitude);
  constexpr int kHalf = (1 << (kFormat.dropped() - 1)) - 1;
  const __m512i odd =
      _mm512_and_si512(_mm512_srli_epi16(magnitude, kFormat.dropped()), _mm512_set1_epi16(1));
  const __m512i rounded =
      _mm512_add_epi16(_mm512_add_epi16(magnitude, odd), _mm512_set1_epi16(Lane(kHalf)));
  __m512i code = _mm512_sub_epi16(_mm512_srli_epi16(rounded, kFormat.dropped()),
                                  _mm512_set1_epi16(Lane(kFormat.rebias())));
  const __mmask32 small =
      _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(Lane(kFormat.smallest_normal())));
  if (small != 0) {
    __m512i subnormal = _mm512_setzero_si512();
    for (const uint16_t threshold : kFormat.thresholds()) {
      const __mmask32 above =
          _mm512_cmpgt_epu16_mask(magnitude, _mm512_set1_epi16(Lane(threshold)));
      subnormal = _mm512_mask_add_epi16(subnormal, above, subnormal, _mm512_set1_epi16(1));
    }
    code = _mm512_mask_mov_epi16(code, small, subnormal);
  }
  const __m512i sign = _mm512_and_si512(_mm512_srli_epi16(values, 8), _mm512_set1_epi16(0x80));
  return _mm512_cvtepi16_epi8(_mm512_or_si512(code, sign));
}

// The bits of all 128 magnitudes, as four registers.
template <Format kFormat>
constexpr std::array<uint16_t, 128> MagnitudeTable() {
  std::array<uint16_t, 128> table{};
  for (int code = 0; code < 128; ++code)
    table[code] = DecodeOne<kFormat>(static_cast<uint8_t>(code));
  return table;
}

template <Format kFormat>
ORBITKV_AVX2 bool EncodeAvx2(const uint8_t* values, size_t count, uint8_t* codes) noexcept {
  __m256i largest = _mm256_setzero_si256();
  size_t done = 0;
  for (; done + 32 <= count; done += 32) {
    const __m256i low = Encode16<kFormat>(Load256(values + 2 * done), largest);
    const __m256i high = Encode16<kFormat>(Load256(values + 2 * done + 32), largest);
    // Packing works within halves: put the quarters back in order.
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(low, high), 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + done), packed);
  }
  const bool rest = EncodeTail<kFormat>(values + 2 * done, count - done, codes + done);
  return InRange<kFormat>(largest) && rest;
}

template <Format kFormat>
ORBITKV_AVX2 bool DecodeAvx2(const uint8_t* codes, size_t count, uint8_t* values) noexcept {
  const __m256i nan = _mm256_set1_epi8(kNan);
  __m256i found = _mm256_setzero_si256();
  size_t done = 0;
  for (; done + 32 <= count; done += 32) {
    const __m256i block = Load256(codes + done);
    found = _mm256_or_si256(found, _mm256_cmpeq_epi8(_mm256_and_si256(block, nan), nan));
    const __m256i low = Decode16<kFormat>(_mm256_cvtepu8_epi16(_mm256_castsi256_si128(block)));
    const __m256i high =
        Decode16<kFormat>(_mm256_cvtepu8_epi16(_mm256_extracti128_si256(block, 1)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(values + 2 * done), low);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(values + 2 * done + 32), high);
  }
  const bool rest = DecodeTail<kFormat>(codes + done, count - done, values + 2 * done);
  return _mm256_testz_si256(found, found) != 0 && rest;
}

template <Format kFormat>
ORBITKV_AVX512 bool EncodeAvx512(const uint8_t* values, size_t count, uint8_t* codes) noexcept {
  __m512i largest = _mm512_setzero_si512();
  size_t done = 0;
  for (; done + 32 <= count; done += 32) {
    const __m256i packed = Encode32<kFormat>(Load512(values + 2 * done), largest);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + done), packed);
  }
  const bool rest = EncodeTail<kFormat>(values + 2 * done, count - done, codes + done);
  const __mmask32 beyond =
      _mm512_cmpgt_epu16_mask(largest, _mm512_set1_epi16(Lane(kFormat.largest())));
  return beyond == 0 && rest;
}

template <Format kFormat>
ORBITKV_AVX512 bool DecodeAvx512(const uint8_t* codes, size_t count, uint8_t* values) noexcept {
  static constexpr std::array<uint16_t, 128> kTable = MagnitudeTable<kFormat>();
  const __m512i table0 = Load512(kTable.data());
  const __m512i table1 = Load512(kTable.data() + 32);
  const __m512i table2 = Load512(kTable.data() + 64);
  const __m512i table3 = Load512(kTable.data() + 96);
  const __m512i upper = _mm512_set1_epi16(0x40);
  const __m512i nan = _mm512_set1_epi16(kNan);
  __mmask32 found = 0;
  size_t done = 0;
  for (; done + 32 <= count; done += 32) {
    const __m512i block = _mm512_cvtepu8_epi16(Load256(codes + done));
    const __m512i magnitude = _mm512_and_si512(block, nan);
    found |= _mm512_cmpeq_epi16_mask(magnitude, nan);
    // A lookup takes the low six bits of a lane.
    const __m512i below = _mm512_permutex2var_epi16(table0, block, table1);
    const __m512i above = _mm512_permutex2var_epi16(table2, block, table3);
    const __m512i bits = _mm512_mask_mov_epi16(below, _mm512_test_epi16_mask(block, upper), above);
    const __m512i sign = _mm512_slli_epi16(_mm512_and_si512(block, _mm512_set1_epi16(0x80)), 8);
    _mm512_storeu_si512(values + 2 * done, _mm512_or_si512(bits, sign));
  }
  const bool rest = DecodeTail<kFormat>(codes + done, count - done, values + 2 * done);
  return found == 0 && rest;
}

// The bytes of all 128 magnitudes: low ones, then high ones.
template <Format kFormat>
constexpr std::array<uint8_t, 256> MagnitudeBytes() {
  std::array<uint8_t, 256> bytes{};
  for (int code = 0; code < 128; ++code) {
    const uint16_t value = DecodeOne<kFormat>(static_cast<uint8_t>(code));
    bytes[code] = static_cast<uint8_t>(value);
    bytes[128 + code] = static_cast<uint8_t>(value >> 8);
  }
  return bytes;
}

template <Format kFormat>
ORBITKV_VBMI bool DecodeVbmi(const uint8_t* codes, size_t count, uint8_t* values) noexcept {
  static constexpr std::array<uint8_t, 256> kBytes = MagnitudeBytes<kFormat>();
  const __m512i low0 = Load512(kBytes.data()), low1 = Load512(kBytes.data() + 64);
  const __m512i high0 = Load512(kBytes.data() + 128), high1 = Load512(kBytes.data() + 192);
  // Interleaving works within quarters: what shall come out in order goes in like this.
  const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
  const __m512i nan = _mm512_set1_epi8(kNan);
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
  __m512i largest = _mm512_setzero_si512();
  size_t done = 0;
  for (; done + 64 <= count; done += 64) {
    const __m512i block = _mm512_permutexvar_epi64(order, Load512(codes + done));
    largest = _mm512_max_epu8(largest, _mm512_and_si512(block, nan));
    // A lookup takes the low seven bits of a byte.
    const __m512i low = _mm512_permutex2var_epi8(low0, block, low1);
    const __m512i magnitude = _mm512_permutex2var_epi8(high0, block, high1);
    const __m512i high = _mm512_or_si512(magnitude, _mm512_and_si512(block, sign));
    _mm512_storeu_si512(values + 2 * done, _mm512_unpacklo_epi8(low, high));
    _mm512_storeu_si512(values + 2 * done + 64, _mm512_unpackhi_epi8(low, high));
  }
  const bool rest = DecodeTail<kFormat>(codes + done, count - done, values + 2 * done);
  return _mm512_cmpeq_epi8_mask(largest, nan) == 0 && rest;
}

}  // namespace

#define ORBITKV_KERNELS(format, Format)                                           \
  ORBITKV_AVX2 bool Encode##Format##Avx2(const uint8_t* values, size_t count,     \
                                         uint8_t* codes) noexcept {               \
    return EncodeAvx2<format>(values, count, codes);                              \
  }                                                                               \
  ORBITKV_AVX2 bool Decode##Format##Avx2(const uint8_t* codes, size_t count,      \
                                         uint8_t* values) noexcept {              \
    return DecodeAvx2<format>(codes, count, values);                              \
  }                                                                               \
  ORBITKV_AVX512 bool Encode##Format##Avx512(const uint8_t* values, size_t count, \
                                             uint8_t* codes) noexcept {           \
    return EncodeAvx512<format>(values, count, codes);                            \
  }                                                                               \
  ORBITKV_AVX512 bool Decode##Format##Avx512(const uint8_t* codes, size_t count,  \
                                             uint8_t* values) noexcept {          \
    return DecodeAvx512<format>(codes, count, values);                            \
  }                                                                               \
  ORBITKV_VBMI bool Decode##Format##Vbmi(const uint8_t* codes, size_t count,      \
                                         uint8_t* values) noexcept {              \
    return DecodeVbmi<format>(codes, count, values);                              \
  }

ORBITKV_KERNELS(kBf16, Bf16)
ORBITKV_KERNELS(kFp16, Fp16)

}  // namespace orbitkv::fp8

#endif
