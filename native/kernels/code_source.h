#pragma once

namespace orbitkv::kernels {

/// What the kernels that code items have in common; their texts follow it (fp8_source.h,
/// turboquant_source.h). Many items in one launch, at most 256, each as its descriptor says, and
/// bit for bit what native/codec does on the processor.
///
/// An item is cut into units, one a warp at a time. Descriptors number their units through the
/// launch (`first`), by which a warp finds the item of its unit. Blocks have 256 threads; fewer
/// warps than there are units go round.
///
/// Any alignment of a page is right, and one of 16 bytes is fast; coded bytes likewise. Encoding
/// zeroes what follows the coded bytes up to `padded`. An item that cannot be coded, or bytes that
/// are no coding, set word `item` of `flags`; what was written of it is worth nothing then.
///
/// A kernel's arguments: (items, count, units, flags). Behind the `count` flags lie as many sums,
/// and behind these the powers of x that FP8 asks for.
///
/// Without a device's compiler this text is also C++, run thread by thread by test/native/kernels.
inline constexpr char kCodeSource[] = R"cuda(
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

// What is coded. `coding`: format, scalar, role and bits, from the lowest byte, numbered as ITEM_CODING is. `unit` is
// FP8's: bytes of a unit, and in bit 31 whether the kernel that encodes it sums it too.
struct Item {
  u64 page;
  u64 coded;
  u32 bytes;
  u32 stored;
  u32 padded;
  u32 first;
  u32 coding;
  u32 head_dim;
  u32 seed;
  u32 unit;
};
enum { BF16 = 1, VALUES = 2, PACKED = 3 };
enum { ITEMS_MAX = 256 };

#define FULL 0xffffffffu
#define EACH _Pragma("unroll")

// ---- memory: words of a lane, whatever the alignment

template <int W>
static __device__ __forceinline__ void get(u64 at, bool wide, u32 (&words)[W]) {
  if (wide) {
    if (W == 1) words[0] = *(const u32*)at;
    if (W == 2) {
      const uint2 v = *(const uint2*)at;
      words[0] = v.x;
      words[W > 1] = v.y;
    }
    EACH for (int k = 0; k + 4 <= W; k += 4) {
      const uint4 v = ((const uint4*)at)[k / 4];
      words[k] = v.x;
      words[k + 1] = v.y;
      words[k + 2] = v.z;
      words[k + 3] = v.w;
    }
    return;
  }
  EACH for (int k = 0; k < W; ++k) {
    words[k] = 0;
    EACH for (int i = 0; i < 4; ++i) words[k] |= (u32)((const u8*)at)[4 * k + i] << (8 * i);
  }
}

template <int W>
static __device__ __forceinline__ void put(u64 at, bool wide, const u32 (&words)[W]) {
  if (wide) {
    if (W == 1) *(u32*)at = words[0];
    if (W == 2) *(uint2*)at = make_uint2(words[0], words[W > 1]);
    EACH for (int k = 0; k + 4 <= W; k += 4)
      ((uint4*)at)[k / 4] = make_uint4(words[k], words[k + 1], words[k + 2], words[k + 3]);
    return;
  }
  EACH for (int k = 0; k < W; ++k)
    EACH for (int i = 0; i < 4; ++i) ((u8*)at)[4 * k + i] = (u8)(words[k] >> (8 * i));
}

template <int W>
static __device__ __forceinline__ bool is_wide(u64 address) {
  return address % (W < 4 ? 4 * W : 16) == 0;
}

// Bytes between memories that are apart by anything; as wide as both allow.
static __device__ __forceinline__ void carry(u64 to, u64 from, u32 bytes, u32 lane) {
  u32 done = 0;
  if ((to | from) % 16 == 0) {
    done = bytes / 16 * 16;
    for (u32 at = lane * 16; at < done; at += 32 * 16) *(uint4*)(to + at) = *(const uint4*)(from + at);
  }
  for (u32 at = done + lane; at < bytes; at += 32) *(u8*)(to + at) = *(const u8*)(from + at);
}

// ---- scalars

static __device__ __forceinline__ float half_to_float(u32 h) {
#ifdef __CUDA_ARCH__
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"((u16)h));
  return f;
#else
  const u32 magnitude = (h & 0x7fffu) << 13;
  const u32 sign = (h & 0x8000u) << 16;
  if (magnitude >= 0x7c00u << 13) return __uint_as_float(sign | 0x7f800000u | (magnitude & 0x7fffffu));
  return __uint_as_float(sign | __float_as_uint(__fmul_rn(__uint_as_float(magnitude), 5192296858534827628530496329220096.0f)));
#endif
}

// To nearest, ties to even; beyond 65519.99 infinite.
static __device__ __forceinline__ u32 float_to_half(float f) {
#ifdef __CUDA_ARCH__
  u16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
#else
  const u32 bits = __float_as_uint(f);
  const u32 sign = (bits >> 16) & 0x8000u;
  const u32 magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fffu;
  if (magnitude >= 0x47800000u) return sign | 0x7c00u;
  if (magnitude < 0x38800000u) {
    const float shifted = __fadd_rn(__uint_as_float(magnitude), 0.5f);
    return sign | (__float_as_uint(shifted) - 0x3f000000u);
  }
  return sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13);
#endif
}

// Two values of a word, widened: exact.
static __device__ __forceinline__ void widen(u32 word, bool bf16, float& low, float& high) {
  if (bf16) {
    low = __uint_as_float(word << 16);
    high = __uint_as_float(word & 0xffff0000u);
  } else {
    low = half_to_float(word & 0xffffu);
    high = half_to_float(word >> 16);
  }
}

// Two values to a word, rounded to nearest even; halves saturate. No coding has values that BF16 could not hold.
static __device__ __forceinline__ u32 narrow(float low, float high, bool bf16) {
  if (!bf16) {
    low = fminf(fmaxf(low, -65504.0f), 65504.0f);
    high = fminf(fmaxf(high, -65504.0f), 65504.0f);
  }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  u32 word;
  if (bf16) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
#else
  if (!bf16) return float_to_half(low) | (float_to_half(high) << 16);
  const u32 a = __float_as_uint(low);
  const u32 b = __float_as_uint(high);
  return ((a + 0x7fffu + ((a >> 16) & 1u)) >> 16) | ((b + 0x7fffu + ((b >> 16) & 1u)) & 0xffff0000u);
#endif
}

// ---- units

// The item of a unit: the last that begins at it or before.
static __device__ __forceinline__ u32 item_of(const u32* firsts, u32 count, u32 unit) {
  u32 low = 0;
  for (u32 step = ITEMS_MAX / 2; step; step /= 2)
    if (low + step < count && firsts[low + step] <= unit) low += step;
  return low;
}

static __device__ __forceinline__ bool is_bf16(const Item& item) { return ((item.coding >> 8) & 0xffu) == BF16; }

// Runs body(item, its number, the unit in it, lane) for every unit of a launch, a warp each; a body that says true sets the
// item's flag.
template <class Body>
static __device__ __forceinline__ void for_each_unit(const Item* items, u32 count, u32 units, u32* flags, const Body& body) {
  __shared__ u32 firsts[ITEMS_MAX];
  for (u32 i = threadIdx.x; i < count; i += blockDim.x) firsts[i] = items[i].first;
  __syncthreads();
  const u32 lane = threadIdx.x % 32;
  const u32 stride = gridDim.x * (blockDim.x / 32);
  // Neighbouring units go to different blocks, so that few of them still use all of the device.
  for (u32 u = blockIdx.x + gridDim.x * (threadIdx.x / 32); u < units; u += stride) {
    const u32 index = item_of(firsts, count, u);
    const Item item = items[index];
    const bool refused = body(item, index, u - firsts[index], lane);
    if (__any_sync(FULL, refused) && lane == 0) flags[index] = 1;
  }
}

// What follows the coded bytes of an item, up to `padded`, is zero; its first unit sees to it.
static __device__ __forceinline__ void zero_behind(const Item& item, u32 unit, u32 lane) {
  if (unit == 0)
    for (u32 at = item.stored + lane; at < item.padded; at += 32) *(u8*)(item.coded + at) = 0;
}
)cuda";

}  // namespace orbitkv::kernels
