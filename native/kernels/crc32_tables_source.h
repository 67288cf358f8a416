#pragma once

namespace orbitkv::kernels {

/// Products of polynomials modulo that of CRC32, for kernels that sum; their texts follow it.
///
/// Multiplying by a constant is eight look-ups of four bits each, in tables of which every lane has
/// a copy in its own bank of shared memory: no look-up waits for another.
inline constexpr char kCrc32TablesSource[] = R"cuda(
typedef unsigned long long u64;
typedef unsigned int u32;

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

// A table of the products with a constant: 8 half bytes, 16 values, 32 lanes. Threads 0 to 127 of a block fill it; a
// barrier has to follow.
enum { TABLE_WORDS = 4096 };
static __device__ __forceinline__ void fill(u32* table, u32 id, u32 constant) {
  const u32 product = times((id & 15u) << (4 * ((id >> 4) & 7u)), constant);
  for (u32 i = 0; i < 32; ++i) table[id * 32 + (i + id) % 32] = product;
}

// The product of `x` with the constant of the table that begins `offset` bytes from `tables`; `lane` is where the lane's
// copy of an entry is, in bytes.
static __device__ __forceinline__ u32 entry(const char* bytes, u32 half, u32 lane, u32 offset) {
#ifdef __CUDA_ARCH__
  // One instruction. The compiler knows too much of `lane` to find it.
  u32 at;
  asm("lop3.b32 %0, %1, 0x780, %2, 0xea;" : "=r"(at) : "r"(half), "r"(lane));
#else
  const u32 at = (half & 0x780u) | lane;
#endif
  return *(const u32*)(bytes + at + offset);
}
static __device__ __forceinline__ u32 step(const u32* tables, u32 x, u32 lane, u32 offset) {
  const char* const bytes = (const char*)tables;
  return (entry(bytes, x << 7, lane, offset) ^ entry(bytes, x << 3, lane, offset + 2048) ^
          entry(bytes, x >> 1, lane, offset + 4096)) ^
         (entry(bytes, x >> 5, lane, offset + 6144) ^ entry(bytes, x >> 9, lane, offset + 8192) ^
          entry(bytes, x >> 13, lane, offset + 10240)) ^
         (entry(bytes, x >> 17, lane, offset + 12288) ^ entry(bytes, x >> 21, lane, offset + 14336));
}
)cuda";

}  // namespace orbitkv::kernels
