#pragma once

// The kernels behind crc32.h. All of them take and return the raw register: no inversion at either
// end.

#include <cstddef>
#include <cstdint>

namespace orbitkv::crc32_kernels {

inline constexpr uint32_t kPolynomial = 0xEDB88320u;  // reflected

uint32_t Portable(uint32_t state, const uint8_t* bytes, size_t count) noexcept;

#if defined(__x86_64__)
uint32_t Pclmul(uint32_t state, const uint8_t* bytes, size_t count) noexcept;
uint32_t Vpclmul(uint32_t state, const uint8_t* bytes, size_t count) noexcept;
uint32_t Vpclmul512(uint32_t state, const uint8_t* bytes, size_t count) noexcept;
#endif

}  // namespace orbitkv::crc32_kernels
