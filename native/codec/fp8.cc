#include "codec/fp8.h"

#include <array>
#include <cstring>

#include "codec/fp8_format.h"

namespace orbitkv {
namespace {

using Encoder = bool (*)(const uint8_t*, size_t, uint8_t*) noexcept;
using Decoder = bool (*)(const uint8_t*, size_t, uint8_t*) noexcept;

struct Kernels {
  Encoder encode;
  Decoder decode;
};

/// What the arithmetic of fp8_format.h gives, for every input there is. NaN stands for what is out
/// of range: no encoder writes it.
template <fp8::Format kFormat>
struct Tables {
  Tables() {
    for (size_t bits = 0; bits < codes.size(); ++bits) {
      const auto value = static_cast<uint16_t>(bits);
      const bool in_range = (value & fp8::kMagnitude) <= kFormat.largest();
      codes[bits] = in_range ? fp8::EncodeOne<kFormat>(value) : fp8::kNan;
    }
    for (size_t code = 0; code < values.size(); ++code)
      values[code] = fp8::DecodeOne<kFormat>(static_cast<uint8_t>(code));
  }
  static const Tables& Get() {
    static const Tables tables;
    return tables;
  }
  std::array<uint8_t, 65536> codes;
  std::array<uint16_t, 256> values;
};

template <fp8::Format kFormat>
bool EncodeByTable(const uint8_t* values, size_t count, uint8_t* codes) noexcept {
  const auto& table = Tables<kFormat>::Get().codes;
  bool sound = true;
  for (size_t i = 0; i < count; ++i) {
    uint16_t value;
    std::memcpy(&value, values + 2 * i, sizeof value);
    codes[i] = table[value];
    sound &= codes[i] != fp8::kNan;
  }
  return sound;
}

template <fp8::Format kFormat>
bool DecodeByTable(const uint8_t* codes, size_t count, uint8_t* values) noexcept {
  const auto& table = Tables<kFormat>::Get().values;
  bool sound = true;
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(values + 2 * i, &table[codes[i]], sizeof table[0]);
    sound &= (codes[i] & fp8::kNan) != fp8::kNan;
  }
  return sound;
}

Kernels KernelsOf(Fp8Variant variant, Fp8Source source) noexcept {
  const bool bf16 = source == Fp8Source::kBf16;
  switch (variant) {
#if defined(__x86_64__)
    case Fp8Variant::kAvx2:
      return bf16 ? Kernels{fp8::EncodeBf16Avx2, fp8::DecodeBf16Avx2}
                  : Kernels{fp8::EncodeFp16Avx2, fp8::DecodeFp16Avx2};
    case Fp8Variant::kAvx512:
      return bf16 ? Kernels{fp8::EncodeBf16Avx512, fp8::DecodeBf16Avx512}
                  : Kernels{fp8::EncodeFp16Avx512, fp8::DecodeFp16Avx512};
    case Fp8Variant::kAvx512Vbmi:
      return bf16 ? Kernels{fp8::EncodeBf16Avx512, fp8::DecodeBf16Vbmi}
                  : Kernels{fp8::EncodeFp16Avx512, fp8::DecodeFp16Vbmi};
#endif
    default:
      return bf16 ? Kernels{EncodeByTable<fp8::kBf16>, DecodeByTable<fp8::kBf16>}
                  : Kernels{EncodeByTable<fp8::kFp16>, DecodeByTable<fp8::kFp16>};
  }
}

}  // namespace

std::string_view Fp8Name(Fp8Variant variant) noexcept {
  switch (variant) {
    case Fp8Variant::kAvx2:
      return "avx2";
    case Fp8Variant::kAvx512:
      return "avx512";
    case Fp8Variant::kAvx512Vbmi:
      return "avx512vbmi";
    default:
      return "portable";
  }
}

bool Fp8Available(Fp8Variant variant) noexcept {
  switch (variant) {
    case Fp8Variant::kPortable:
      return true;
#if defined(__x86_64__)
    // The compiler's test covers the processor and what the system saves of its registers.
    case Fp8Variant::kAvx2:
      return __builtin_cpu_supports("avx2");
    case Fp8Variant::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    case Fp8Variant::kAvx512Vbmi:
      return Fp8Available(Fp8Variant::kAvx512) && __builtin_cpu_supports("avx512vbmi");
#endif
    default:
      return false;
  }
}

Fp8Variant Fp8Best() noexcept {
  static const Fp8Variant best = [] {
    Fp8Variant widest = Fp8Variant::kPortable;
    for (const Fp8Variant variant : kFp8Variants)
      if (Fp8Available(variant)) widest = variant;
    return widest;
  }();
  return best;
}

bool Fp8Encode(Fp8Variant variant, Fp8Source source, const void* values, size_t count,
               uint8_t* codes) noexcept {
  return KernelsOf(variant, source).encode(static_cast<const uint8_t*>(values), count, codes);
}

bool Fp8Decode(Fp8Variant variant, Fp8Source source, const uint8_t* codes, size_t count,
               void* values) noexcept {
  return KernelsOf(variant, source).decode(codes, count, static_cast<uint8_t*>(values));
}

}  // namespace orbitkv
