#include "codec/crc32_combine.h"

namespace orbitkv {

uint32_t Crc32Times(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a != 0; a <<= 1) {
    if ((a & 0x80000000u) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? 0xedb88320u : 0);
  }
  return product;
}

uint32_t Crc32Shift(uint64_t bytes) {
  uint32_t power = 0x80000000u;
  uint32_t square = 0x00800000u;  // one byte
  for (; bytes != 0; bytes >>= 1) {
    if ((bytes & 1) != 0) power = Crc32Times(power, square);
    square = Crc32Times(square, square);
  }
  return power;
}

uint32_t Crc32FromRemainder(uint32_t remainder, uint64_t bytes) {
  return ~(remainder ^ Crc32Times(0xffffffffu, Crc32Shift(bytes)));
}

}  // namespace orbitkv
