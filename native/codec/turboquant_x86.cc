#if defined(__x86_64__)

// TurboQuant for processors with AVX2 and AVX-512. Neither target names FMA, and contraction is
// off: AVX-512 has fused multiply-adds of its own.

#include "codec/turboquant_lanes.h"

namespace orbitkv::turboquant {

ORBITKV_TURBOQUANT_KERNELS(kAvx2, 8, __attribute__((target("avx2"))))
ORBITKV_TURBOQUANT_KERNELS(kAvx512, 16,
                           __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2"))))

}  // namespace orbitkv::turboquant

#endif
