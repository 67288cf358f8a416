#pragma once

#include <cstdint>

namespace orbitkv {

/// Product of two polynomials modulo the one of CRC32, reflected: 1 is 0x80000000.
uint32_t Crc32Times(uint32_t a, uint32_t b);

/// x to the power of 8 * bytes: what a remainder is multiplied by when `bytes` zero bytes follow.
uint32_t Crc32Shift(uint64_t bytes);

/// The CRC32 of a message of `bytes` bytes from its plain remainder: one that started at 0 and was
/// not inverted at its end.
uint32_t Crc32FromRemainder(uint32_t remainder, uint64_t bytes);

}  // namespace orbitkv
