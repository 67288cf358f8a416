#pragma once

namespace orbitkv::kernels {

/// CRC32 (IEEE) of pieces of at most 64 KiB, one warp a piece. A piece is {address, bytes, weight,
/// result, 0}: its remainder, without the customary first and last inversion, times `weight` (the
/// polynomial of what follows it in its sum) is added to results[result]. Addition is exclusive or,
/// so the order of pieces does not matter.
///
/// A piece is read in tiles of 512 bytes that end where it ends, 16 neighbouring bytes a lane;
/// zeros in front of it change no remainder. Each lane keeps the remainder of its own column of
/// tiles, and `lanes` holds what that is to be multiplied by: x to the power of 128 * (31 - lane).
///
/// Multiplying by a constant is eight look-ups of four bits each, in tables of which every lane has
/// a copy in its own bank of shared memory: no look-up waits for another.
///
/// Name of the kernel: orbitkv_crc32(pieces, count, results); 256 threads a block.
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

// Tables of the products with two constants, x^32 and another, one after the other: 8 half bytes, 16 values, 32 lanes.
// A block of 256 threads fills them; a barrier has to follow.
#define NEAR 0u
#define FAR 16384u
static __device__ __forceinline__ void fill(u32* tables, u32 id, u32 other) {
  const u32 product = times((id & 15u) << (4 * ((id >> 4) & 7u)), id < 128 ? 0xedb88320u : other);
  for (u32 i = 0; i < 32; ++i) tables[id * 32 + (i + id) % 32] = product;
}

// The product of `x` with the constant whose table begins at byte `table`, NEAR or FAR; `lane` is where the lane's copy of
// an entry is, in bytes.
static __device__ __forceinline__ u32 entry(const char* bytes, u32 half, u32 lane, u32 table) {
  return *(const u32*)(bytes + ((half & 0x780u) | lane) + table);
}
static __device__ __forceinline__ u32 step(const u32* tables, u32 x, u32 lane, u32 table) {
  const char* const bytes = (const char*)tables;
  return (entry(bytes, x << 7, lane, table) ^ entry(bytes, x << 3, lane, table + 2048) ^
          entry(bytes, x >> 1, lane, table + 4096)) ^
         (entry(bytes, x >> 5, lane, table + 6144) ^ entry(bytes, x >> 9, lane, table + 8192) ^
          entry(bytes, x >> 13, lane, table + 10240)) ^
         (entry(bytes, x >> 17, lane, table + 12288) ^ entry(bytes, x >> 21, lane, table + 14336));
}

// 16 bytes at `at`; those before `first` count as zeros and are not read.
static __device__ __forceinline__ uint4 sixteen(u64 at, u64 first) {
  if (at >= first && at % 16 == 0) return *(const uint4*)at;
  u32 words[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    words[k] = 0;
    for (int i = 0; i < 4; ++i) {
      const u64 byte = at + 4 * k + i;
      if (byte >= first) words[k] |= (u32)*(const unsigned char*)byte << (8 * i);
    }
  }
  uint4 v;
  v.x = words[0];
  v.y = words[1];
  v.z = words[2];
  v.w = words[3];
  return v;
}

// x to the power of 128 * (31 - lane).
static __device__ const u32 weights[32] = {
  0x4f534f3eu, 0x8ab14358u, 0x830613d1u, 0xb34988bbu, 0x1b6dc110u, 0x8d8f12afu,
  0xa0f5c8a8u, 0xb72d2b3cu, 0xc4c8be0au, 0x894eaf8cu, 0x6d17bcf2u, 0x7c69160du,
  0xfda1dcfau, 0x08229c67u, 0x76ad8866u, 0xec447f11u, 0x8fd2cd3cu, 0x6b1d2b53u,
  0x291ea462u, 0x62b6ca4bu, 0x784d2a56u, 0x0eaee722u, 0xdb54814cu, 0xd7bbfe6au,
  0x6325605cu, 0xe5b592b8u, 0x4721589fu, 0x88d14467u, 0x15141c31u, 0xed627daeu,
  0xa06a2517u, 0x80000000u,
};

// The remainder of one lane's column of tiles. `WIDE`: its bytes are at multiples of 16.
template <bool WIDE>
static __device__ __forceinline__ u32 column(const u32* tables, u64 at, u64 first, u32 tiles, u32 lane) {
  uint4 next = sixteen(at, first);
  u32 crc = 0;
  for (u32 tile = 1;; ++tile) {
    const uint4 v = next;
    at += 512;
    if (tile < tiles) next = WIDE ? *(const uint4*)at : sixteen(at, first);
    crc = step(tables, crc ^ v.x, lane, NEAR) ^ v.y;
    crc = step(tables, crc, lane, NEAR) ^ v.z;
    crc = step(tables, crc, lane, NEAR) ^ v.w;
    if (tile == tiles) return step(tables, crc, lane, NEAR);
    crc = step(tables, crc, lane, FAR);
  }
}

extern "C" __global__ void __launch_bounds__(256)
orbitkv_crc32(const Piece* pieces, u32 count, u32* results) {
  __shared__ u32 tables[8192];
  const u32 id = threadIdx.x;
  // By x^4000 from a tile's last word of a lane to the next tile's first.
  fill(tables, id, 0x1cc717f9u);
  __syncthreads();

  const u32 lane = id % 32;
  const u32 warps = gridDim.x * (blockDim.x / 32);
  for (u32 p = blockIdx.x + gridDim.x * (id / 32); p < count; p += warps) {
    u64 field = 0;
    if (lane < 3) field = ((const volatile u64*)(pieces + p))[lane];
    const u64 address = __shfl_sync(0xffffffffu, field, 0);
    const u64 sizes = __shfl_sync(0xffffffffu, field, 1);
    const u64 place = __shfl_sync(0xffffffffu, field, 2);
    const u64 end = address + (u32)sizes;
    const u32 weight = (u32)(sizes >> 32);
    const u32 tiles = ((u32)sizes + 511) / 512;
    const u64 at = end - (u64)tiles * 512 + lane * 16;
    u32 crc = end % 16 == 0 ? column<true>(tables, at, address, tiles, lane * 4)
                            : column<false>(tables, at, address, tiles, lane * 4);
    crc = times(crc, weights[lane]);
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) crc ^= __shfl_xor_sync(0xffffffffu, crc, offset);
    if (lane == 0) atomicXor(results + (u32)place, times(crc, weight));
  }
}
)cuda";

}  // namespace orbitkv::kernels
