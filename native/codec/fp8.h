#pragma once

// BF16 and FP16 to FP8 E4M3FN and back: sign, 4 bits of exponent with bias 7, 3 bits of mantissa;
// 448 is the largest value, 0x7F and 0xFF are NaN, there is no infinity. Encoding rounds to
// nearest, ties to even, and refuses instead of clipping; decoding is exact in both formats. Every
// variant gives the same bytes.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace orbitkv {

enum class Fp8Source : uint8_t { kBf16, kFp16 };

enum class Fp8Variant : uint8_t {
  kPortable,   // any processor, by tables
  kAvx2,       // x86: 16 values at once
  kAvx512,     // x86: AVX-512 F and BW, 32 values at once
  kAvx512Vbmi  // x86: with VBMI too, decodes 64 codes at once
};

inline constexpr Fp8Variant kFp8Variants[] = {Fp8Variant::kPortable, Fp8Variant::kAvx2,
                                              Fp8Variant::kAvx512, Fp8Variant::kAvx512Vbmi};

std::string_view Fp8Name(Fp8Variant variant) noexcept;
bool Fp8Available(Fp8Variant variant) noexcept;

/// The widest variant of this processor.
Fp8Variant Fp8Best() noexcept;

/// Encodes `count` values. False when one is not finite or lies outside [-448, 448]: then the codes
/// mean nothing. Neither pointer needs alignment; the ranges may not overlap. Requires
/// Fp8Available(variant).
bool Fp8Encode(Fp8Variant variant, Fp8Source source, const void* values, size_t count,
               uint8_t* codes) noexcept;

/// Decodes `count` codes. False when one is NaN, which no encoder writes: then the values mean
/// nothing. As Fp8Encode otherwise.
bool Fp8Decode(Fp8Variant variant, Fp8Source source, const uint8_t* codes, size_t count,
               void* values) noexcept;

}  // namespace orbitkv
