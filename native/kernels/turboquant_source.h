#pragma once

namespace orbitkv::kernels {

/// TurboQuant (native/codec/turboquant.h), behind kCodeSource and definitions of HEAD_DIM (32, 64,
/// 128 or 256) and BITS (3 or 4): every shape is a program of its own, because no engine has many.
///
/// A unit is 16 vectors. 16 lanes have a vector, HEAD_DIM / 16 neighbouring values each:
/// butterflies inside a lane first, then between lanes. The stored bytes of a unit pass through
/// shared memory, because those of a vector are no more than even in number.
///
/// No operation is fused that the reference has apart. A quotient is a product with the rounded
/// reciprocal and one correction: for dividends of 11 bits, as those of keys are, that is the
/// rounded quotient (all were held against every divisor); two corrections for those of 24.
///
/// Names of the kernels: orbitkv_turboquant_encode, orbitkv_turboquant_decode.
inline constexpr char kTurboquantSource[] = R"cuda(
// ---- TurboQuant: lane l of 16 holds values l * N ... l * N + N - 1 of its vector, D = 16 * N

enum { UNIT_VECTORS = 16, UNIT_BYTES = 16 * (HEAD_DIM * BITS / 8 + 4) };

template <int D, int B>
struct Shape {
  enum { N = D / 16, W = N / 2, CODES = D * B / 8, K = CODES + 2, V = CODES + 4 };
};

// Where the vectors of a unit are, step by step: two vectors at once, of one kind.
struct Vectors {
  u32 first, count;
  bool packed, values;

  __device__ __forceinline__ u32 at(u32 step, u32 half) const {
    return packed ? (step / 2 * 2 + half) * 2 + step % 2 : step * 2 + half;
  }
  __device__ __forceinline__ u32 steps() const { return packed ? (count + 3) / 4 * 2 : (count + 1) / 2; }
  __device__ __forceinline__ bool is_value(u32 step) const { return values || (packed && step % 2 == 1); }
  // Stored bytes in front of vector v of the item, or of the unit.
  template <class S>
  __device__ __forceinline__ u32 offset(u32 v) const {
    return packed ? v / 2 * (S::K + S::V) + v % 2 * S::K : v * (values ? S::V : S::K);
  }
};

// The sum of a vector's N values a lane, in the order of a tree that halves: i and i + D / 2 first. Lanes that are
// 8, 4, 2 and 1 apart share out what they hold, as long as it can be halved.
template <int N, int BIT>
static __device__ __forceinline__ float tree_between(float (&s)[N], u32 lane) {
  if constexpr (BIT == 0) {
    static_assert(N == 1, "16 lanes share out 16 values at most");
    return s[0];
  } else if constexpr (N == 1) {
    s[0] = __fadd_rn(s[0], __shfl_xor_sync(FULL, s[0], BIT));
    return tree_between<1, BIT / 2>(s, lane);
  } else {
    const bool upper = lane & BIT;
    float kept[N / 2];
    EACH for (int i = 0; i < N / 2; ++i) {
      const float given = upper ? s[i] : s[i + N / 2];
      kept[i] = __fadd_rn(upper ? s[i + N / 2] : s[i], __shfl_xor_sync(FULL, given, BIT));
    }
    return tree_between<N / 2, BIT / 2>(kept, lane);
  }
}

template <int N>
static __device__ __forceinline__ float tree_sum(float (&s)[N], u32 lane) {
  float sum = tree_between<N, 8>(s, lane);
  // What was shared out is added up: value bits, from the highest, lie in lane bits 8, 4, ...
  EACH for (int bit = 8, left = N; left > 1; left /= 2, bit /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(FULL, sum, bit));
  return sum;
}

template <int N>
static __device__ __forceinline__ void hadamard(float (&x)[N], u32 lane) {
  EACH for (int h = 1; h < N; h *= 2)
    EACH for (int i = 0; i < N; ++i)
      if (!(i & h)) {
        const float a = x[i];
        const float b = x[i + h];
        x[i] = __fadd_rn(a, b);
        x[i + h] = __fsub_rn(a, b);
      }
  EACH for (int bit = 1; bit < 16; bit *= 2) {
    // One fused product with 1 or -1 is the sum or the difference, rounded once.
    const float turn = lane & bit ? -1.0f : 1.0f;
    EACH for (int i = 0; i < N; ++i) x[i] = __fmaf_rn(x[i], turn, __shfl_xor_sync(FULL, x[i], bit));
  }
}

// Sign bits of a lane's values: bit 15 and 31 of word k for values 2k and 2k + 1.
template <int W>
static __device__ __forceinline__ void signs_of(u32 seed, u32 lane, u32 (&signs)[W]) {
  EACH for (int k = 0; k < W; ++k) {
    signs[k] = 0;
    EACH for (int i = 0; i < 2; ++i) {
      u32 h = seed + (lane * 2 * W + 2 * k + i) * 0x9e3779b9u;
      h ^= h >> 16;
      h *= 0x85ebca6bu;
      h ^= h >> 13;
      h *= 0xc2b2ae35u;
      h ^= h >> 16;
      signs[k] |= (h >> 31) << (16 * i + 15);
    }
  }
}

// Boundaries between centroids, of those above 0; 0 is one too, and their mirror images are.
template <int B>
static __device__ __forceinline__ float boundary_of(u32 i) {
  const float four[7] = {0.258221664671f, 0.522403709011f, 0.799549787510f, 1.099285826917f,
                         1.437138791685f, 1.843531806277f, 2.400803398763f};
  const float three[3] = {0.500549730075f, 1.049957279855f, 1.747927491521f};
  return B == 4 ? four[i % 7] : three[i % 3];
}

// Cells are a quarter wide, around multiples of a quarter, and none has two boundaries. No rotated value of a unit vector is
// beyond 16: 64 cells on either side. A cell is its boundary's bits (infinity: it has none), and how many are below it.
enum { CELLS = 129 };
template <int B>
static __device__ uint2 cell_of(u32 cell) {
  const float middle = __fmul_rn((float)((int)cell - 64), 0.25f);
  const float low = middle - 0.125f, high = middle + 0.125f;
  float boundary = __uint_as_float(0x7f800000u);
  u32 below = 0;
  const u32 half = (1u << (B - 1)) - 1;
  for (u32 i = 0; i < 2 * half + 1; ++i) {
    const float at = i < half ? -boundary_of<B>(half - 1 - i) : i == half ? 0.0f : boundary_of<B>(i - half - 1);
    if (at < low) ++below;
    else if (at < high) boundary = at;
  }
  return make_uint2(__float_as_uint(boundary), below);
}

// Which centroid: how many boundaries are below z. The sum with 2^23 rounds to whole cells.
static __device__ __forceinline__ u32 quantize(float z, const uint2* cells) {
  const u32 cell = __float_as_uint(__fmaf_rn(z, 4.0f, 8388608.0f + 64.0f)) - 0x4b000000u;
  const uint2 found = cells[cell];
  return found.y + (z > __uint_as_float(found.x) ? 1u : 0u);
}

template <int B>
static __device__ __forceinline__ float centroid_of(u32 code) {
  const float four[8] = {0.128395029851f, 0.388048299490f, 0.656759118532f, 0.942340456487f,
                         1.256231197347f, 1.618046386022f, 2.069017226531f, 2.732589570995f};
  const float three[4] = {0.245094178944f, 0.756005281206f, 1.343909278505f, 2.151945704537f};
  const u32 half = 1u << (B - 1);
  const u32 place = code >= half ? code - half : half - 1 - code;
  const float value = B == 4 ? four[place & 7u] : three[place & 3u];
  return code >= half ? value : -value;
}

// Codes of a lane, value i at bit i * B: as few words as hold them.
template <bool wide> struct CodesOf { typedef u32 Type; };
template <> struct CodesOf<true> { typedef u64 Type; };
template <int N, int B> using Codes = typename CodesOf<(N * B > 32)>::Type;

// To `to` and back: through memory that the other lanes see. Where a lane's codes
// are no whole bytes, neighbours put theirs together.
template <int N, int B>
static __device__ __forceinline__ void put_codes(u8* to, Codes<N, B> codes, u32 lane) {
  enum { LANE_BITS = N * B };
  if (LANE_BITS % 8 == 0) {
    u8* const mine = to + lane * (LANE_BITS / 8);
    if (LANE_BITS % 16 == 0) {
      EACH for (int i = 0; i < LANE_BITS / 16; ++i) ((u16*)mine)[i] = (u16)(codes >> (16 * i));
    } else {
      EACH for (int i = 0; i < LANE_BITS / 8; ++i) mine[i] = (u8)(codes >> (8 * i));
    }
    return;
  }
  u32 word = (u32)codes;
  if (N == 2) word |= __shfl_xor_sync(FULL, word, 1) << 6;
  word |= __shfl_xor_sync(FULL, word, N == 2 ? 2 : 1) << 12;
  const u32 together = N == 2 ? 4 : 2;
  if (lane % together != 0) return;
  EACH for (int i = 0; i < 3; ++i) to[lane / together * 3 + i] = (u8)(word >> (8 * i));
}

template <int N, int B>
static __device__ __forceinline__ Codes<N, B> get_codes(const u8* from, u32 lane) {
  enum { LANE_BITS = N * B };
  Codes<N, B> codes = 0;
  if (LANE_BITS % 16 == 0) {
    EACH for (int i = 0; i < LANE_BITS / 16; ++i) codes |= (Codes<N, B>)((const u16*)(from + lane * (LANE_BITS / 8)))[i] << (16 * i);
    return codes;
  }
  const u32 together = LANE_BITS % 8 == 0 ? 1 : N == 2 ? 4 : 2;
  EACH for (int i = 0; i < (LANE_BITS % 8 == 0 ? LANE_BITS / 8 : 3); ++i)
    codes |= (Codes<N, B>)from[lane / together * (together * LANE_BITS / 8) + i] << (8 * i);
  return codes >> (lane % together * LANE_BITS);
}

static __device__ __forceinline__ bool no_half(u32 h) { return (h & 0x7c00u) == 0x7c00u; }

// A key and a value, encoded: their stored bytes go to `to`. Each says whether the vector must be refused.
template <int D, int B, bool bf16>
static __device__ __forceinline__ bool encode_key(const u32 (&words)[D / 32], const u32 (&signs)[D / 32],
                                                  const uint2* cells, u32 lane, u8* to) {
  enum { N = D / 16, W = D / 32 };
  float x[N], s[N];
  u32 any = 0;
  EACH for (int k = 0; k < W; ++k) {
    any |= words[k];
    widen(words[k], bf16, x[2 * k], x[2 * k + 1]);
    s[2 * k] = __fmul_rn(x[2 * k], x[2 * k]);
    s[2 * k + 1] = __fmul_rn(x[2 * k + 1], x[2 * k + 1]);
  }
  const float n = __fsqrt_rn(tree_sum<N>(s, lane));
  const u32 stored = float_to_half(n);
  // The norm of what is not finite is not finite. What has none although a value of a lane's is not 0 is refused by that
  // lane alone, which is enough; a norm that only FP16 has not, by all of them.
  const bool refused = no_half(stored) || (stored == 0 && (n > 0.0f || (any & 0x7fff7fffu)));
  // Of nothing all is nothing, and 1 divides in the place of what would give no number.
  const bool none = refused || n == 0.0f;
  const float divisor = none ? 1.0f : n;
  u32 tiny = 0;
  EACH for (int k = 0; k < W; ++k) {
    const u32 word = none ? 0u : words[k];
    const u32 m = word & 0x7fff7fffu;
    // Not 0 and below 2^-90, in BF16: the remainder of a division might have no place.
    tiny |= (m + 0x7fff7fffu) & ~(m + 0x6d806d80u);
    widen(word ^ signs[k], bf16, x[2 * k], x[2 * k + 1]);
  }
  if (__any_sync(FULL, bf16 && (tiny & 0x80008000u))) {
    EACH for (int i = 0; i < N; ++i) x[i] = __fdiv_rn(x[i], divisor);
  } else {
    const float reciprocal = __frcp_rn(divisor);
    EACH for (int i = 0; i < N; ++i) {
      const float q = __fmul_rn(x[i], reciprocal);
      x[i] = __fmaf_rn(__fmaf_rn(-divisor, q, x[i]), reciprocal, q);
    }
  }
  hadamard<N>(x, lane);
  Codes<N, B> codes = 0;
  EACH for (int i = N - 1; i >= 0; --i) codes = (codes << B) + quantize(x[i], cells);
  put_codes<N, B>(to, codes, lane);
  if (lane == 0) *(u16*)(to + D * B / 8) = (u16)stored;
  return refused;
}

template <int D, int B, bool bf16>
static __device__ __forceinline__ bool encode_value(const u32 (&words)[D / 32], u32 lane, u8* to) {
  enum { N = D / 16, W = D / 32, TOP = (1 << B) - 1 };
  float x[N];
  u32 bad = 0;
  EACH for (int k = 0; k < W; ++k) {
    widen(words[k], bf16, x[2 * k], x[2 * k + 1]);
    bad |= (words[k] & 0x7fff7fffu) + (bf16 ? 0x00800080u : 0x04000400u);
  }
  float low = x[0], high = x[0];
  EACH for (int i = 1; i < N; ++i) {
    low = fminf(low, x[i]);
    high = fmaxf(high, x[i]);
  }
  EACH for (int bit = 1; bit < 16; bit *= 2) {
    low = fminf(low, __shfl_xor_sync(FULL, low, bit));
    high = fmaxf(high, __shfl_xor_sync(FULL, high, bit));
    bad |= __shfl_xor_sync(FULL, bad, bit);
  }
  low = __fadd_rn(low, 0.0f);  // -0 counts as 0
  high = __fadd_rn(high, 0.0f);
  float scale = __fdiv_rn(__fsub_rn(high, low), (float)TOP);
  if (scale < 1e-8f) scale = 1e-8f;
  const u32 stored_scale = float_to_half(scale);
  const u32 stored_low = float_to_half(low);
  const bool refused = (bad & 0x80008000u) || no_half(stored_scale) || no_half(stored_low) ||
                       (stored_scale == 0 && high > low);
  const float divisor = refused ? 1.0f : scale;
  const float reciprocal = __frcp_rn(divisor);
  Codes<N, B> codes = 0;
  EACH for (int i = N - 1; i >= 0; --i) {
    const float above = __fsub_rn(x[i], low);
    float q = __fmul_rn(above, reciprocal);
    q = __fmaf_rn(__fmaf_rn(-divisor, q, above), reciprocal, q);
    q = __fmaf_rn(__fmaf_rn(-divisor, q, above), reciprocal, q);
    // Rounded down to a whole number by the last place of 2^23.
    const float whole = __fadd_rd(fminf(__fadd_rn(q, 0.5f), TOP + 0.5f), 8388608.0f);
    codes = (codes << B) + (__float_as_uint(whole) & TOP);
  }
  put_codes<N, B>(to, codes, lane);
  if (lane == 0) {
    *(u16*)(to + D * B / 8) = (u16)stored_scale;
    *(u16*)(to + D * B / 8 + 2) = (u16)stored_low;
  }
  return refused;
}

// And back, from their stored bytes. Each says whether they are none.
template <int D, int B, bool bf16>
static __device__ __forceinline__ bool decode_key(const u8* from, const float* centroids, const u32 (&signs)[D / 32],
                                                  u32 lane, u32 (&words)[D / 32]) {
  enum { N = D / 16, W = D / 32 };
  const Codes<N, B> codes = get_codes<N, B>(from, lane);
  const u32 stored = *(const u16*)(from + D * B / 8);
  float c[N], s[N];
  EACH for (int i = 0; i < N; ++i) {
    c[i] = centroids[(u32)(codes >> (i * B)) & ((1 << B) - 1)];
    s[i] = __fmul_rn(c[i], c[i]);
  }
  const float m = __fsqrt_rn(tree_sum<N>(s, lane));
  const float root = D == 32 ? 5.656854249492380195f : D == 64 ? 8.0f : D == 128 ? 11.31370849898476039f : 16.0f;
  const float gain = __fdiv_rn(half_to_float(stored), __fmul_rn(m, root));
  const bool none = (stored & 0x7fffu) == 0;
  hadamard<N>(c, lane);
  EACH for (int k = 0; k < W; ++k) {
    const u32 word = narrow(__fmul_rn(c[2 * k], gain), __fmul_rn(c[2 * k + 1], gain), bf16) ^ signs[k];
    words[k] = none ? 0u : word;
  }
  return no_half(stored);
}

template <int D, int B, bool bf16>
static __device__ __forceinline__ bool decode_value(const u8* from, u32 lane, u32 (&words)[D / 32]) {
  enum { N = D / 16, W = D / 32 };
  const Codes<N, B> codes = get_codes<N, B>(from, lane);
  const u32 stored_scale = *(const u16*)(from + D * B / 8);
  const u32 stored_low = *(const u16*)(from + D * B / 8 + 2);
  const float scale = half_to_float(stored_scale);
  const float low = half_to_float(stored_low);
  float x[N];
  EACH for (int i = 0; i < N; ++i) {
    const u32 code = (u32)(codes >> (i * B)) & ((1 << B) - 1);
    const float whole = __fsub_rn(__uint_as_float(0x4b000000u | code), 8388608.0f);
    x[i] = __fadd_rn(__fmul_rn(whole, scale), low);
  }
  EACH for (int k = 0; k < W; ++k) words[k] = narrow(x[2 * k], x[2 * k + 1], bf16);
  return no_half(stored_scale) || no_half(stored_low);
}

static __device__ __forceinline__ Vectors vectors_of(const Item& item, u32 unit, u32 vector_bytes) {
  const u32 all = item.bytes / vector_bytes;
  const u32 first = unit * UNIT_VECTORS;
  const u32 role = (item.coding >> 16) & 0xffu;
  return {first, all - first < UNIT_VECTORS ? all - first : UNIT_VECTORS, role == PACKED, role == VALUES};
}

template <int D, int B, bool bf16>
static __device__ __forceinline__ bool encode_turbo(const Item& item, u32 unit, u32 warp_lane, u8* staged,
                                                    const uint2* cells) {
  using S = Shape<D, B>;
  const u32 half = warp_lane / 16, lane = warp_lane % 16;
  const Vectors vectors = vectors_of(item, unit, 2 * D);
  u32 signs[S::W], next[S::W] = {};
  signs_of<S::W>(item.seed, lane, signs);
  const bool wide = is_wide<S::W>(item.page);
  const u64 page = item.page + (u64)vectors.first * (2 * D) + lane * (2 * S::N);
  const u32 steps = vectors.steps();
  if (vectors.at(0, half) < vectors.count) get<S::W>(page + vectors.at(0, half) * (2 * D), wide, next);
  bool refused = false;
  for (u32 step = 0; step < steps; ++step) {
    u32 words[S::W];
    const u32 v = vectors.at(step, half);
    EACH for (int k = 0; k < S::W; ++k) {
      words[k] = next[k];
      next[k] = 0;  // of a vector that is not there, which is nobody's
    }
    const u32 then = vectors.at(step + 1, half);
    if (step + 1 < steps && then < vectors.count) get<S::W>(page + then * (2 * D), wide, next);
    u8* const to = staged + vectors.offset<S>(v);
    if (vectors.is_value(step)) refused |= encode_value<D, B, bf16>(words, lane, to);
    else refused |= encode_key<D, B, bf16>(words, signs, cells, lane, to);
  }
  __syncwarp();
  carry(item.coded + vectors.offset<S>(vectors.first), (u64)staged, vectors.offset<S>(vectors.count), warp_lane);
  __syncwarp();
  return refused;
}

template <int D, int B, bool bf16>
static __device__ __forceinline__ bool decode_turbo(const Item& item, u32 unit, u32 warp_lane, u8* staged,
                                                    const float* centroids) {
  using S = Shape<D, B>;
  const u32 half = warp_lane / 16, lane = warp_lane % 16;
  const Vectors vectors = vectors_of(item, unit, 2 * D);
  carry((u64)staged, item.coded + vectors.offset<S>(vectors.first), vectors.offset<S>(vectors.count), warp_lane);
  u32 signs[S::W];
  signs_of<S::W>(item.seed, lane, signs);
  const bool wide = is_wide<S::W>(item.page);
  const u64 page = item.page + (u64)vectors.first * (2 * D) + lane * (2 * S::N);
  __syncwarp();
  bool refused = false;
  for (u32 step = 0; step < vectors.steps(); ++step) {
    u32 words[S::W];
    const u32 v = vectors.at(step, half);
    const u8* const from = staged + vectors.offset<S>(v);
    const bool bad = vectors.is_value(step) ? decode_value<D, B, bf16>(from, lane, words)
                                            : decode_key<D, B, bf16>(from, centroids, signs, lane, words);
    if (v >= vectors.count) continue;
    put<S::W>(page + v * (2 * D), wide, words);
    refused |= bad;
  }
  __syncwarp();
  return refused;
}

extern "C" __global__ void __launch_bounds__(256, HEAD_DIM < 256 ? 4 : 2)
orbitkv_turboquant_encode(const Item* items, u32 count, u32 units, u32* flags) {
  __shared__ uint4 staged[8][UNIT_BYTES / 16];
  __shared__ uint2 cells[CELLS];
  u8* const mine = (u8*)staged[threadIdx.x / 32];
  if (threadIdx.x < CELLS) cells[threadIdx.x] = cell_of<BITS>(threadIdx.x);
  // for_each_unit() has a barrier before the first of them is read.
  const uint2* const all = cells;
  for_each_unit(items, count, units, flags, [mine, all](const Item& item, u32, u32 unit, u32 lane) {
    zero_behind(item, unit, lane);
    return is_bf16(item) ? encode_turbo<HEAD_DIM, BITS, true>(item, unit, lane, mine, all)
                         : encode_turbo<HEAD_DIM, BITS, false>(item, unit, lane, mine, all);
  });
}

extern "C" __global__ void __launch_bounds__(256, HEAD_DIM < 256 ? 4 : 2)
orbitkv_turboquant_decode(const Item* items, u32 count, u32 units, u32* flags) {
  __shared__ float centroids[1 << BITS];
  __shared__ uint4 staged[8][UNIT_BYTES / 16];
  u8* const mine = (u8*)staged[threadIdx.x / 32];
  if (threadIdx.x < (1 << BITS)) centroids[threadIdx.x] = centroid_of<BITS>(threadIdx.x);
  // for_each_unit() has a barrier before the first of them is read.
  const float* const all = centroids;
  for_each_unit(items, count, units, flags, [mine, all](const Item& item, u32, u32 unit, u32 lane) {
    return is_bf16(item) ? decode_turbo<HEAD_DIM, BITS, true>(item, unit, lane, mine, all)
                         : decode_turbo<HEAD_DIM, BITS, false>(item, unit, lane, mine, all);
  });
}
)cuda";

}  // namespace orbitkv::kernels
