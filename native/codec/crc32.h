#pragma once

// CRC32, IEEE polynomial (reflected 0xEDB88320), as zlib computes it. Continues from an earlier
// value; 0 starts. The widest implementation that this processor has is chosen once, at the first
// call.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace orbitkv {

enum class Crc32Variant : uint8_t {
  kPortable,   // sixteen tables, any processor
  kPclmul,     // x86: carry-less multiply, 4 x 128 bits
  kVpclmul,    // x86: the same on AVX2 registers, 4 x 256 bits
  kVpclmul512  // x86: the same on AVX-512 registers, 4 x 512 bits
};

inline constexpr Crc32Variant kCrc32Variants[] = {Crc32Variant::kPortable, Crc32Variant::kPclmul,
                                                  Crc32Variant::kVpclmul,
                                                  Crc32Variant::kVpclmul512};

std::string_view Crc32Name(Crc32Variant variant) noexcept;
bool Crc32Available(Crc32Variant variant) noexcept;

/// The variant that crc32() uses here.
Crc32Variant Crc32Best() noexcept;

uint32_t crc32(uint32_t crc, const void* bytes, size_t count) noexcept;

/// Requires Crc32Available(variant).
uint32_t Crc32With(Crc32Variant variant, uint32_t crc, const void* bytes, size_t count) noexcept;

/// CRC over the first `segment_bytes` of every stride in `bytes`, as if they lay one behind the
/// other. Requires segment_bytes <= stride_bytes, stride_bytes > 0 and bytes a multiple of
/// stride_bytes.
uint32_t Crc32Strided(uint32_t crc, const void* base, size_t bytes, size_t segment_bytes,
                      size_t stride_bytes) noexcept;

}  // namespace orbitkv
