#include "codec/fp8.h"

#include "codec/fp8_format.h"

namespace orbitkv {
namespace {

using Encoder = bool (*)(const uint8_t*, size_t, uint8_t*) noexcept;
using Decoder = bool (*)(const uint8_t*, size_t, uint8_t*) noexcept;

struct Kernels {
  Encoder encode;
  Decoder decode;
};

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
#endif
    default:
      return bf16 ? Kernels{fp8::EncodePortable<fp8::kBf16>, fp8::DecodePortable<fp8::kBf16>}
                  : Kernels{fp8::EncodePortable<fp8::kFp16>, fp8::DecodePortable<fp8::kFp16>};
  }
}

}  // namespace

std::string_view Fp8Name(Fp8Variant variant) noexcept {
  switch (variant) {
    case Fp8Variant::kAvx2:
      return "avx2";
    case Fp8Variant::kAvx512:
      return "avx512";
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
