#pragma once

namespace orbitkv::kernels {

/// CRC32 (IEEE) of runs, bytes that lie together; behind kCrc32TablesSource. A run is {address,
/// bytes, weight, result, first}: its remainder, without the customary first and last inversion,
/// times `weight` (the polynomial of what follows it in its sum) is added to results[result].
/// Addition is exclusive or, so the order does not matter. A warp takes a piece of a run at a time:
/// of `piece_bytes`, a multiple of 2048, counted from the run's end; `first` numbers a run's pieces
/// through the launch. `powers` has x to the power of 8 * 2048 * i, by which a piece is moved to
/// its place.
///
/// A piece is read in tiles of 512 bytes on multiples of 16, 16 neighbouring bytes a lane; what is
/// read in front of it or behind it counts as zeros, and the power that zeros behind it add is
/// taken back in the end. Each of the four words of a lane has a remainder of its own, that of the
/// same word of all tiles: all four go one tile further by the same constant, and none waits for
/// another.
///
/// Name of the kernel: orbitkv_crc32(runs, count, pieces, piece_bytes, powers, results); 256
/// threads a block.
inline constexpr char kCrc32Source[] = R"cuda(
struct Run { u64 address; u32 bytes; u32 weight; u32 result; u32 first; };

// 16 bytes at a multiple of 16; those before `first` or from `end` on count as zeros and are not read.
static __device__ __forceinline__ uint4 sixteen(u64 at, u64 first, u64 end) {
  if (at >= first && at + 16 <= end) return *(const uint4*)at;
  u32 words[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    words[k] = 0;
    for (int i = 0; i < 4; ++i) {
      const u64 byte = at + 4 * k + i;
      if (byte >= first && byte < end) words[k] |= (u32)*(const unsigned char*)byte << (8 * i);
    }
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
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

// x to the power of -8 * i.
static __device__ const u32 unshifted[16] = {
  0x80000000u, 0x6567cb95u, 0xd7125358u, 0x1f81b6e1u, 0x5b358fd3u, 0xeb21cebfu,
  0x2ff880c5u, 0x97fc423cu, 0x2e9bb40bu, 0x2fb98a7du, 0xd6f6fa3cu, 0x2059d4a0u,
  0x36511375u, 0x525983aau, 0x31619cb3u, 0x0f125caeu,
};

// Tiles that are read at once.
enum { FLIGHT = 4, ROUND = FLIGHT * 512 };
struct Flight { uint4 v[FLIGHT]; };

static __device__ __forceinline__ Flight read_edge(u64 at, u64 first, u64 end) {
  Flight read;
#pragma unroll
  for (int k = 0; k < FLIGHT; ++k) read.v[k] = sixteen(at + k * 512, first, end);
  return read;
}

// Takes a lane's four remainders over tiles that follow.
static __device__ __forceinline__ void take(const u32* table, const Flight& read, u32 lane, uint4& sum) {
#pragma unroll
  for (int k = 0; k < FLIGHT; ++k) {
    sum.x = step(table, sum.x, lane, 0) ^ read.v[k].x;
    sum.y = step(table, sum.y, lane, 0) ^ read.v[k].y;
    sum.z = step(table, sum.z, lane, 0) ^ read.v[k].z;
    sum.w = step(table, sum.w, lane, 0) ^ read.v[k].w;
  }
}

// The remainder of the bytes from `first` to `end`, shared out among the lanes of a warp: the sum of what they return.
static __device__ __forceinline__ u32 remainder_of(const u32* table, u64 first, u64 end, u32 id) {
  const u32 lane = id * 4;
  const u64 stop = (end + 15) / 16 * 16;
  const u32 rounds = (u32)((stop - first + ROUND - 1) / ROUND);
  // Only the first round and the last one may have to leave bytes out.
  const u32 wide = stop != end && rounds > 1 ? rounds - 1 : rounds;
  u64 at = stop - (u64)rounds * ROUND + id * 16;
  Flight next = read_edge(at, first, end);
  uint4 sum = make_uint4(0, 0, 0, 0);
  for (u32 round = 1; round < wide; ++round) {
    const Flight now = next;
    at += ROUND;
#pragma unroll
    for (int k = 0; k < FLIGHT; ++k) next.v[k] = *(const uint4*)(at + k * 512);
    take(table, now, lane, sum);
  }
  take(table, next, lane, sum);
  if (wide < rounds) take(table, read_edge(at + ROUND, first, end), lane, sum);
  // From each word to the next, and behind the last, by x^32.
  u32 crc = times(sum.x, 0xedb88320u) ^ sum.y;
  crc = times(crc, 0xedb88320u) ^ sum.z;
  crc = times(crc, 0xedb88320u) ^ sum.w;
  crc = times(times(crc, 0xedb88320u), weights[id]);
  return stop == end ? crc : times(crc, unshifted[stop - end]);
}

// The run of a piece: the last that begins with it or before. All lanes of a warp look together.
static __device__ __forceinline__ u32 run_of(const Run* runs, u32 count, u32 piece, u32 lane) {
  u32 low = 0;
  while (count > 1) {
    const u32 each = (count + 31) / 32;
    const u32 at = lane * each;
    const bool begun = at < count && runs[low + at].first <= piece;
    const u32 before = (__popc(__ballot_sync(0xffffffffu, begun)) - 1) * each;
    low += before;
    count = count - before < each ? count - before : each;
  }
  return low;
}

extern "C" __global__ void __launch_bounds__(256, 4)
orbitkv_crc32(const Run* runs, u32 count, u32 pieces, u32 piece_bytes, const u32* powers, u32* results) {
  __shared__ u32 table[TABLE_WORDS];
  const u32 id = threadIdx.x;
  // By x^4096, from a tile to the next.
  if (id < 128) fill(table, id, 0x8e7ea170u);
  __syncthreads();

  const u32 lane = id % 32;
  const u32 warps = gridDim.x * (blockDim.x / 32);
  for (u32 p = blockIdx.x + gridDim.x * (id / 32); p < pieces; p += warps) {
    const Run run = runs[run_of(runs, count, p, lane)];
    const u32 behind = (run.bytes - 1) / piece_bytes - (p - run.first);
    const u64 end = run.address + run.bytes - (u64)behind * piece_bytes;
    const u64 first = p == run.first ? run.address : end - piece_bytes;
    u32 crc = remainder_of(table, first, end, lane);
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) crc ^= __shfl_xor_sync(0xffffffffu, crc, offset);
    if (lane != 0) continue;
    if (behind != 0) crc = times(crc, powers[behind * (piece_bytes / 2048)]);
    atomicXor(results + run.result, times(crc, run.weight));
  }
}
)cuda";

}  // namespace orbitkv::kernels
