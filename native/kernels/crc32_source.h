#pragma once

namespace orbitkv::kernels {

/// CRC32 (IEEE) of pieces of at most 4096 bytes, one warp a piece, each lane 128 consecutive bytes.
/// A piece is {address, bytes, weight, result, 0}: its remainder, without the customary first and
/// last inversion, times `weight` (the polynomial of what follows it in its sum) is added to
/// results[result]. Addition is exclusive or, so the order of pieces does not matter. `lanes` holds
/// the weight of each lane within a full piece.
///
/// Name of the kernel: orbitkv_crc32(pieces, count, lanes, results).
inline constexpr char kCrc32Source[] = R"cuda(
typedef unsigned long long u64;
typedef unsigned int u32;

struct Piece { u64 address; u32 bytes; u32 weight; u32 result; u32 unused; };

// Product of two polynomials modulo the CRC's, reflected: 1 is 0x80000000.
static __device__ __forceinline__ u32 times(u32 a, u32 b) {
  u32 product = 0;
#pragma unroll
  for (int i = 31; i >= 0; --i) {
    product ^= ((a >> i) & 1u) ? b : 0u;
    b = (b >> 1) ^ ((b & 1u) ? 0xedb88320u : 0u);
  }
  return product;
}

// x to the power of 8 * bytes.
static __device__ u32 shift_of(u32 bytes) {
  u32 power = 0x80000000u;
  u32 square = 0x00800000u;
  for (; bytes; bytes >>= 1) {
    if (bytes & 1u) power = times(power, square);
    square = times(square, square);
  }
  return power;
}

extern "C" __global__ void __launch_bounds__(256)
orbitkv_crc32(const Piece* pieces, u32 count, const u32* lanes, u32* results) {
  __shared__ u32 table[4][256];
  const u32 id = threadIdx.x;
  u32 entry = id;
#pragma unroll
  for (int i = 0; i < 8; ++i) entry = (entry >> 1) ^ ((entry & 1u) ? 0xedb88320u : 0u);
  table[0][id] = entry;
  __syncthreads();
  for (int k = 1; k < 4; ++k) {
    entry = (entry >> 8) ^ table[0][entry & 255u];
    table[k][id] = entry;
  }
  __syncthreads();

  const u32 lane = id % 32;
  const u32 warps = gridDim.x * (blockDim.x / 32);
  const u32 lane_weight = ((const volatile u32*)lanes)[lane];
  for (u32 p = blockIdx.x + gridDim.x * (id / 32); p < count; p += warps) {
    u64 field = 0;
    if (lane < 3) field = ((const volatile u64*)(pieces + p))[lane];
    const u64 address = __shfl_sync(0xffffffffu, field, 0);
    const u64 sizes = __shfl_sync(0xffffffffu, field, 1);
    const u64 place = __shfl_sync(0xffffffffu, field, 2);
    const u32 bytes = (u32)sizes;
    const u32 weight = (u32)(sizes >> 32);
    const u32 first = lane * 128;
    const u32 end = first + 128 < bytes ? first + 128 : bytes;
    u32 crc = 0;
    u32 at = first;
    if (address % 16 == 0) {
      for (; at + 16 <= end; at += 16) {
        const uint4 v = *(const uint4*)(address + at);
        const u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const u32 x = crc ^ words[k];
          crc = table[3][x & 255u] ^ table[2][(x >> 8) & 255u] ^ table[1][(x >> 16) & 255u] ^
                table[0][x >> 24];
        }
      }
    }
    for (; at < end; ++at)
      crc = (crc >> 8) ^ table[0][(crc ^ *(const unsigned char*)(address + at)) & 255u];
    if (bytes == 4096) crc = times(crc, lane_weight);
    else if (first < bytes) crc = times(crc, shift_of(bytes - end));
    else crc = 0;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) crc ^= __shfl_xor_sync(0xffffffffu, crc, offset);
    if (lane == 0) atomicXor(results + (u32)place, times(crc, weight));
  }
}
)cuda";

}  // namespace orbitkv::kernels
