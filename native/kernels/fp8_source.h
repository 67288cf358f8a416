#pragma once

namespace orbitkv::kernels {

/// FP8 E4M3FN, behind kCrc32Source and kCodeSource. A unit is whole steps of 4 KiB of a page, of
/// which a lane has 16 bytes, or 8 codes, at a time, and several such in flight; as many steps as
/// the descriptor says. Ada and later encode by instructions, earlier devices by arithmetic.
/// Decoding is one exact product everywhere: a code, shifted to where the wider format has its
/// exponent, is its value but for the bias.
///
/// Codes are summed while they are in registers: reading them again took as long as half of the
/// encoding. A lane has 8 bytes of each 256 of its unit; what follows the unit in the item is whole
/// steps. Behind the sums lie powers of x: for each lane that of the 64 * (31 - lane) bits that
/// follow it, then those of no step, one step, and so on.
///
/// Names of the kernels: orbitkv_fp8_encode, orbitkv_fp8_decode.
inline constexpr char kFp8Source[] = R"cuda(
// ---- FP8

static __device__ __forceinline__ u32 encode_one(u32 value, bool bf16) {
  const u32 magnitude = value & 0x7fffu;
  const float f = bf16 ? __uint_as_float(magnitude << 16) : half_to_float(magnitude);
  const u32 u = __float_as_uint(f);
  // Below 2^-6 a code counts multiples of 2^-9, which are the last place of 2^14.
  const u32 code = u < 0x3c800000u ? __float_as_uint(__fadd_rn(f, 16384.0f)) - 0x46800000u
                                   : ((u + 0x7ffffu + ((u >> 20) & 1u)) >> 20) - 960u;
  return (code & 0x7fu) | ((value >> 8) & 0x80u);
}

// Codes of the two values of a word, in the lower half.
static __device__ __forceinline__ u32 encode_two(u32 word, bool bf16) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  u16 codes;
  if (bf16) {
    float low, high;
    widen(word, true, low, high);
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(codes) : "r"(word));
  }
  return codes;
#else
  return encode_one(word & 0xffffu, bf16) | (encode_one(word >> 16, bf16) << 8);
#endif
}

// Bit 15 of each half: its value is beyond 448, infinite or NaN. (0x8000 - the bits of 448, less 1.)
static __device__ __forceinline__ u32 beyond(u32 word, bool bf16) {
  return ((word & 0x7fff7fffu) + (bf16 ? 0x3c1f3c1fu : 0x20ff20ffu)) & 0x80008000u;
}

// The values of two codes, which lie in the upper bytes of the halves. Put where the format's exponent begins, a code is
// its value but for the bias, subnormal or not: one exact product.
static __device__ __forceinline__ u32 decode_two(u32 codes, bool bf16) {
  const u32 sign = codes & 0x80008000u;
  const u32 magnitude = codes & 0x7f007f00u;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  u32 word;
  if (bf16) asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(word) : "r"(sign | (magnitude >> 4)), "r"(0x7b807b80u), "r"(0x80008000u));
  else asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(word) : "r"(sign | (magnitude >> 1)), "r"(0x5c005c00u));
  return word;
#else
  u32 word = sign;
  EACH for (int k = 0; k < 32; k += 16) {
    const u32 one = (magnitude >> k) & 0x7f00u;
    const float f = __fmul_rn(__uint_as_float(one << 12), 1329227995784915872903807060280344576.0f);
    word |= (bf16 ? __float_as_uint(f) >> 16 : float_to_half(f)) << k;
  }
  return word;
#endif
}

// Lies the code of each half, in its upper byte, at NaN? Bit 15.
static __device__ __forceinline__ u32 no_number(u32 codes) {
  return ((codes & 0x7f007f00u) + 0x01000100u) & 0x80008000u;
}

enum { FP8_STEP = 4096, FP8_FLIGHT = 4 };

// The part of an item that a unit is.
struct Part {
  u64 page, coded;
  u32 bytes, behind;
};
static __device__ __forceinline__ Part part_of(const Item& item, u32 unit) {
  const u32 most = item.unit & 0x7fffffffu;
  const u32 begin = unit * most;
  const u32 bytes = item.bytes - begin < most ? item.bytes - begin : most;
  return {item.page + begin, item.coded + begin / 2, bytes, item.bytes - begin - bytes};
}

// What sums codes as they are made: tables of step(), from a word of 8 bytes to the next and from there to the same lane's
// next 8, where this lane's copies are, and the power of x that its column is followed by.
enum { NEAR = 0, FAR = 4 * TABLE_WORDS };
struct Sums {
  const u32* tables;
  u32 lane;
  u32 lane_weight;
  u32* sums;
  const u32* powers;
};

static __device__ __forceinline__ u32 encode_eight(u64 page, u64 coded, bool wide_page, bool wide_coded, bool bf16) {
  u32 words[4], codes[2];
  get<4>(page, wide_page, words);
  codes[0] = encode_two(words[0], bf16) | (encode_two(words[1], bf16) << 16);
  codes[1] = encode_two(words[2], bf16) | (encode_two(words[3], bf16) << 16);
  put<2>(coded, wide_coded, codes);
  return beyond(words[0], bf16) | beyond(words[1], bf16) | beyond(words[2], bf16) | beyond(words[3], bf16);
}

// Whole steps of aligned memory; summed, when that was asked for.
template <bool bf16, bool SUMMED>
static __device__ __forceinline__ u32 encode_steps(const Part& part, u32 steps, u32 lane, const Sums& sums, u32& bad) {
  const uint4* from = (const uint4*)part.page + lane;
  uint2* to = (uint2*)part.coded + lane;
  u32 crc = 0;
  for (u32 step_now = 0; step_now < steps; ++step_now) {
    EACH for (int round = 0; round < FP8_STEP / 16 / 32; round += FP8_FLIGHT) {
      uint4 v[FP8_FLIGHT];
      EACH for (int k = 0; k < FP8_FLIGHT; ++k) v[k] = from[k * 32];
      EACH for (int k = 0; k < FP8_FLIGHT; ++k) {
        bad |= beyond(v[k].x, bf16) | beyond(v[k].y, bf16) | beyond(v[k].z, bf16) | beyond(v[k].w, bf16);
        const u32 low = encode_two(v[k].x, bf16) | (encode_two(v[k].y, bf16) << 16);
        const u32 high = encode_two(v[k].z, bf16) | (encode_two(v[k].w, bf16) << 16);
        to[k * 32] = make_uint2(low, high);
        if (SUMMED) crc = step(sums.tables, step(sums.tables, crc, sums.lane, FAR) ^ low, sums.lane, NEAR) ^ high;
      }
      from += FP8_FLIGHT * 32;
      to += FP8_FLIGHT * 32;
    }
  }
  return crc;
}

template <bool bf16>
static __device__ __forceinline__ bool encode_fp8(const Item& item, u32 index, u32 unit, u32 lane, const Sums& sums) {
  const Part part = part_of(item, unit);
  const bool wide_page = is_wide<4>(part.page), wide_coded = is_wide<2>(part.coded);
  const u32 steps = wide_page && wide_coded ? part.bytes / FP8_STEP : 0;
  u32 bad = 0;
  if (item.unit >> 31) {
    // Such an item has nothing but whole steps.
    u32 crc = encode_steps<bf16, true>(part, steps, lane, sums, bad);
    const u32 power = sums.powers[part.behind / FP8_STEP];
    crc = times(step(sums.tables, crc, sums.lane, NEAR), sums.lane_weight);
    EACH for (int offset = 16; offset > 0; offset /= 2) crc ^= __shfl_xor_sync(FULL, crc, offset);
    if (lane == 0) atomicXor(sums.sums + index, times(crc, power));
    return bad != 0;
  }
  encode_steps<bf16, false>(part, steps, lane, sums, bad);
  const u32 whole = part.bytes / 16 * 16;
  for (u32 at = steps * FP8_STEP + lane * 16; at < whole; at += 32 * 16)
    bad |= encode_eight(part.page + at, part.coded + at / 2, wide_page, wide_coded, bf16);
  for (u32 at = whole + lane * 2; at < part.bytes; at += 32 * 2) {
    const u32 value = *(const u8*)(part.page + at) | ((u32)*(const u8*)(part.page + at + 1) << 8);
    *(u8*)(part.coded + at / 2) = (u8)encode_two(value, bf16);
    bad |= beyond(value, bf16);
  }
  return bad != 0;
}

template <bool bf16>
static __device__ __forceinline__ u32 decode_four(u32 codes, u32& low, u32& high) {
  const u32 a = (codes << 8 & 0xff00u) | (codes << 16 & 0xff000000u);
  const u32 b = (codes >> 8 & 0xff00u) | (codes & 0xff000000u);
  low = decode_two(a, bf16);
  high = decode_two(b, bf16);
  return no_number(a) | no_number(b);
}

template <bool bf16>
static __device__ __forceinline__ bool decode_fp8(const Item& item, u32 unit, u32 lane) {
  const Part part = part_of(item, unit);
  const bool wide_page = is_wide<4>(part.page), wide_coded = is_wide<2>(part.coded);
  const u32 steps = wide_page && wide_coded ? part.bytes / FP8_STEP : 0;
  const uint2* from = (const uint2*)part.coded + lane;
  uint4* to = (uint4*)part.page + lane;
  u32 bad = 0;
  for (u32 step_now = 0; step_now < steps; ++step_now) {
    uint2 v[FP8_STEP / 16 / 32];
    EACH for (int k = 0; k < FP8_STEP / 16 / 32; ++k) v[k] = from[k * 32];
    EACH for (int k = 0; k < FP8_STEP / 16 / 32; ++k) {
      uint4 w;
      bad |= decode_four<bf16>(v[k].x, w.x, w.y) | decode_four<bf16>(v[k].y, w.z, w.w);
      to[k * 32] = w;
    }
    from += FP8_STEP / 16;
    to += FP8_STEP / 16;
  }
  const u32 whole = part.bytes / 16 * 16;
  for (u32 at = steps * FP8_STEP + lane * 16; at < whole; at += 32 * 16) {
    u32 codes[2], words[4];
    get<2>(part.coded + at / 2, wide_coded, codes);
    bad |= decode_four<bf16>(codes[0], words[0], words[1]) | decode_four<bf16>(codes[1], words[2], words[3]);
    put<4>(part.page + at, wide_page, words);
  }
  for (u32 at = whole + lane * 2; at < part.bytes; at += 32 * 2) {
    const u32 code = (u32)*(const u8*)(part.coded + at / 2) << 8;
    const u32 value = decode_two(code, bf16);
    *(u8*)(part.page + at) = (u8)value;
    *(u8*)(part.page + at + 1) = (u8)(value >> 8);
    bad |= no_number(code);
  }
  return bad != 0;
}

// Without instructions that encode, four blocks a multiprocessor would spill registers.
extern "C" __global__ void __launch_bounds__(256, __CUDA_ARCH__ >= 890 ? 4 : 3)
orbitkv_fp8_encode(const Item* items, u32 count, u32 units, u32* flags) {
  // By x^32 and by x^2016: a step's columns are 256 bytes apart.
  __shared__ u32 tables[2 * TABLE_WORDS];
  const u32 id = threadIdx.x;
  // The barrier that they need is in for_each_unit().
  fill(tables + id / 128 * TABLE_WORDS, id % 128, id < 128 ? 0xedb88320u : 0x99168a18u);
  const u32* const powers = flags + 2 * count;
  const Sums sums = {tables, id % 32 * 4, powers[id % 32], flags + count, powers + 32};
  for_each_unit(items, count, units, flags, [sums](const Item& item, u32 index, u32 unit, u32 lane) {
    zero_behind(item, unit, lane);
    return is_bf16(item) ? encode_fp8<true>(item, index, unit, lane, sums) : encode_fp8<false>(item, index, unit, lane, sums);
  });
}

extern "C" __global__ void __launch_bounds__(256, 4)
orbitkv_fp8_decode(const Item* items, u32 count, u32 units, u32* flags) {
  for_each_unit(items, count, units, flags, [](const Item& item, u32, u32 unit, u32 lane) {
    return is_bf16(item) ? decode_fp8<true>(item, unit, lane) : decode_fp8<false>(item, unit, lane);
  });
}
)cuda";

}  // namespace orbitkv::kernels
