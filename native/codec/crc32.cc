#include "codec/crc32.h"

#include <array>
#include <cstring>

#include "codec/crc32_kernels.h"

namespace orbitkv {

namespace crc32_kernels {
namespace {

// kTables[n][b]: what byte b, followed by n zero bytes, does to the register.
using Tables = std::array<std::array<uint32_t, 256>, 16>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t state = byte;
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = state;
  }
  for (size_t n = 1; n < tables.size(); ++n) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[n - 1][byte];
      tables[n][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

uint32_t LoadLittle32(const uint8_t* bytes) noexcept {
  uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  if constexpr (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) word = __builtin_bswap32(word);
  return word;
}

// Four bytes of the message whose last byte has `after` bytes of its 16-byte block behind it.
uint32_t Advance4(uint32_t word, size_t after) noexcept {
  return kTables[after + 3][word & 0xff] ^ kTables[after + 2][(word >> 8) & 0xff] ^
         kTables[after + 1][(word >> 16) & 0xff] ^ kTables[after][word >> 24];
}

}  // namespace

uint32_t Portable(uint32_t state, const uint8_t* bytes, size_t count) noexcept {
  for (; count >= 16; bytes += 16, count -= 16) {
    state = Advance4(LoadLittle32(bytes) ^ state, 12) ^ Advance4(LoadLittle32(bytes + 4), 8) ^
            Advance4(LoadLittle32(bytes + 8), 4) ^ Advance4(LoadLittle32(bytes + 12), 0);
  }
  for (; count > 0; ++bytes, --count) state = (state >> 8) ^ kTables[0][(state ^ *bytes) & 0xff];
  return state;
}

}  // namespace crc32_kernels

namespace {

using Kernel = uint32_t (*)(uint32_t, const uint8_t*, size_t) noexcept;

Kernel KernelOf(Crc32Variant variant) noexcept {
  switch (variant) {
#if defined(__x86_64__)
    case Crc32Variant::kPclmul:
      return crc32_kernels::Pclmul;
    case Crc32Variant::kVpclmul:
      return crc32_kernels::Vpclmul;
    case Crc32Variant::kVpclmul512:
      return crc32_kernels::Vpclmul512;
#endif
    default:
      return crc32_kernels::Portable;
  }
}

Crc32Variant WidestAvailable() noexcept {
  Crc32Variant best = Crc32Variant::kPortable;
  for (const Crc32Variant variant : kCrc32Variants) {
    if (Crc32Available(variant)) best = variant;
  }
  return best;
}

uint32_t Run(Kernel kernel, uint32_t crc, const void* bytes, size_t count) noexcept {
  return ~kernel(~crc, static_cast<const uint8_t*>(bytes), count);
}

Kernel BestKernel() noexcept {
  static const Kernel kernel = KernelOf(Crc32Best());
  return kernel;
}

}  // namespace

std::string_view Crc32Name(Crc32Variant variant) noexcept {
  switch (variant) {
    case Crc32Variant::kPortable:
      return "portable";
    case Crc32Variant::kPclmul:
      return "pclmul";
    case Crc32Variant::kVpclmul:
      return "vpclmul";
    case Crc32Variant::kVpclmul512:
      return "vpclmul512";
  }
  return "";
}

bool Crc32Available(Crc32Variant variant) noexcept {
  switch (variant) {
    case Crc32Variant::kPortable:
      return true;
#if defined(__x86_64__)
    case Crc32Variant::kPclmul:
      return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    case Crc32Variant::kVpclmul:
      return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2") &&
             Crc32Available(Crc32Variant::kPclmul);
    case Crc32Variant::kVpclmul512:
      return __builtin_cpu_supports("avx512f") && Crc32Available(Crc32Variant::kVpclmul);
#endif
    default:
      return false;
  }
}

Crc32Variant Crc32Best() noexcept {
  static const Crc32Variant best = WidestAvailable();
  return best;
}

uint32_t crc32(uint32_t crc, const void* bytes, size_t count) noexcept {
  return Run(BestKernel(), crc, bytes, count);
}

uint32_t Crc32With(Crc32Variant variant, uint32_t crc, const void* bytes, size_t count) noexcept {
  return Run(KernelOf(variant), crc, bytes, count);
}

uint32_t Crc32Strided(uint32_t crc, const void* base, size_t bytes, size_t segment_bytes,
                      size_t stride_bytes) noexcept {
  const auto* from = static_cast<const uint8_t*>(base);
  if (segment_bytes == stride_bytes) return crc32(crc, from, bytes);
  const Kernel kernel = BestKernel();
  uint32_t state = ~crc;
  for (size_t at = 0; at < bytes; at += stride_bytes)
    state = kernel(state, from + at, segment_bytes);
  return ~state;
}

}  // namespace orbitkv
