#include "codec/turboquant.h"

#include "codec/turboquant_lanes.h"

namespace orbitkv {

namespace turboquant {

ORBITKV_TURBOQUANT_KERNELS(kPortable, 4, )

}  // namespace turboquant

namespace {

const turboquant::Kernels& KernelsOf(TurboquantVariant variant) noexcept {
  switch (variant) {
#if defined(__x86_64__)
    case TurboquantVariant::kAvx2:
      return turboquant::kAvx2Kernels;
    case TurboquantVariant::kAvx512:
      return turboquant::kAvx512Kernels;
#endif
    default:
      return turboquant::kPortableKernels;
  }
}

}  // namespace

std::string_view TurboquantName(TurboquantVariant variant) noexcept {
  switch (variant) {
    case TurboquantVariant::kAvx2:
      return "avx2";
    case TurboquantVariant::kAvx512:
      return "avx512";
    default:
      return "portable";
  }
}

bool TurboquantAvailable(TurboquantVariant variant) noexcept {
  switch (variant) {
    case TurboquantVariant::kPortable:
      return true;
#if defined(__x86_64__)
    // The compiler's test covers the processor and what the system saves of its registers.
    case TurboquantVariant::kAvx2:
      return __builtin_cpu_supports("avx2");
    case TurboquantVariant::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
    default:
      return false;
  }
}

TurboquantVariant TurboquantBest() noexcept {
  static const TurboquantVariant best = [] {
    TurboquantVariant widest = TurboquantVariant::kPortable;
    for (const TurboquantVariant variant : kTurboquantVariants)
      if (TurboquantAvailable(variant)) widest = variant;
    return widest;
  }();
  return best;
}

bool TurboquantEncode(TurboquantVariant variant, const TurboquantShape& shape, const void* values,
                      uint64_t count, uint8_t* stored) noexcept {
  return KernelsOf(variant).encode[static_cast<size_t>(shape.scalar)][shape.bits - 3](
      shape, static_cast<const uint8_t*>(values), count, stored);
}

bool TurboquantDecode(TurboquantVariant variant, const TurboquantShape& shape,
                      const uint8_t* stored, uint64_t count, void* values) noexcept {
  return KernelsOf(variant).decode[static_cast<size_t>(shape.scalar)][shape.bits - 3](
      shape, stored, count, static_cast<uint8_t*>(values));
}

}  // namespace orbitkv
