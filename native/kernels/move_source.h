#pragma once

namespace orbitkv::kernels {

/// Copies tiles between any two memories that the device reaches. A tile is {target, source,
/// bytes}; source 0 writes zeros. As wide as the addresses allow, eight loads in flight a lane.
/// Tiles of one launch do not overlap.
///
/// orbitkv_move(tiles, count): over the bus. One warp a tile, which it fetches itself.
///
/// orbitkv_gather(tiles, count, slices, slice_bytes): inside the device, where fetching tiles from
/// the host takes as long as moving their bytes. A block of 16 warps fetches the tiles of its next
/// round in one go while it moves those of this one; `slices` (1, 2 or 4) warps share a tile, each
/// of them `slice_bytes` (a multiple of 16) of it, the last one what is left.
///
/// orbitkv_gather_warps(tiles, count, slices, slice_bytes): the same, and no warp waits for
/// another: each fetches the tile of its next slice while it moves this one. For tiles in device
/// memory: over the bus it would ask once a slice, where a block asks once for all of its warps.
///
/// Without a device's compiler this text is also C++, run thread by thread by test/native/kernels.
inline constexpr char kMoveSource[] = R"cuda(
typedef unsigned long long u64;
typedef unsigned int u32;

struct Tile { u64 target; u64 source; u64 bytes; };

static __device__ __forceinline__ uint4 load(const uint4* p) {
#ifdef __CUDA_ARCH__
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
#else
  return *p;
#endif
}
static __device__ __forceinline__ u64 load(const u64* p) { return *(const volatile u64*)p; }
static __device__ __forceinline__ u32 load(const u32* p) { return *(const volatile u32*)p; }
static __device__ __forceinline__ unsigned char load(const unsigned char* p) {
  return *(const volatile unsigned char*)p;
}

template <class T>
static __device__ __forceinline__ void span(u64 target, u64 source, u64 count, u32 lane) {
  T* to = (T*)target;
  const T* from = (const T*)source;
  u64 i = lane;
  for (; i + 32 * 7 < count; i += 32 * 8) {
    T v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = load(from + i + 32 * k);
#pragma unroll
    for (int k = 0; k < 8; ++k) to[i + 32 * k] = v[k];
  }
  if (i + 32 * 3 < count) {
    T v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = load(from + i + 32 * k);
#pragma unroll
    for (int k = 0; k < 4; ++k) to[i + 32 * k] = v[k];
    i += 32 * 4;
  }
  for (; i < count; i += 32) to[i] = load(from + i);
}

static __device__ __forceinline__ void bytes_of(u64 target, u64 source, u64 count, u32 lane) {
  for (u64 i = lane; i < count; i += 32)
    ((unsigned char*)target)[i] = load((const unsigned char*)source + i);
}

// Head and tail bytewise, so that what lies between is aligned for T on both sides.
template <class T>
static __device__ __forceinline__ void aligned(u64 target, u64 source, u64 bytes, u32 lane) {
  u64 head = (sizeof(T) - target % sizeof(T)) % sizeof(T);
  if (head > bytes) head = bytes;
  const u64 body = (bytes - head) / sizeof(T);
  const u64 done = head + body * sizeof(T);
  if (head) bytes_of(target, source, head, lane);
  span<T>(target + head, source + head, body, lane);
  if (done < bytes) bytes_of(target + done, source + done, bytes - done, lane);
}

static __device__ void zero(u64 target, u64 bytes, u32 lane) {
  u64 head = (16 - target % 16) % 16;
  if (head > bytes) head = bytes;
  for (u64 i = lane; i < head; i += 32) ((unsigned char*)target)[i] = 0;
  const u64 body = (bytes - head) / 16;
  for (u64 i = lane; i < body; i += 32) ((uint4*)(target + head))[i] = make_uint4(0, 0, 0, 0);
  for (u64 i = head + body * 16 + lane; i < bytes; i += 32) ((unsigned char*)target)[i] = 0;
}

static __device__ __forceinline__ void move(u64 target, u64 source, u64 bytes, u32 lane) {
  const u64 apart = target ^ source;
  if (source == 0) zero(target, bytes, lane);
  else if (apart % 16 == 0) aligned<uint4>(target, source, bytes, lane);
  else if (apart % 8 == 0) aligned<u64>(target, source, bytes, lane);
  else if (apart % 4 == 0) aligned<u32>(target, source, bytes, lane);
  else bytes_of(target, source, bytes, lane);
}

extern "C" __global__ void __launch_bounds__(512)
orbitkv_move(const Tile* tiles, u32 count) {
  const u32 lane = threadIdx.x % 32;
  const u32 warps = gridDim.x * (blockDim.x / 32);
  // Neighbouring tiles go to different blocks, so that few tiles still use all of them.
  for (u32 t = blockIdx.x + gridDim.x * (threadIdx.x / 32); t < count; t += warps) {
    u64 field = 0;
    if (lane < 3) field = ((const volatile u64*)(tiles + t))[lane];
    const u64 target = __shfl_sync(0xffffffffu, field, 0);
    const u64 source = __shfl_sync(0xffffffffu, field, 1);
    const u64 bytes = __shfl_sync(0xffffffffu, field, 2);
    move(target, source, bytes, lane);
  }
}

extern "C" __global__ void __launch_bounds__(512)
orbitkv_gather(const Tile* tiles, u32 count, u32 slices, u32 slice_bytes) {
  __shared__ u64 fields[2][16 * 3];
  const u32 id = threadIdx.x;
  const u32 lane = id % 32;
  const u32 tiles_each = 16 / slices;
  const u32 mine = id / 32 / slices;
  const u64 begin = (u64)(id / 32 % slices) * slice_bytes;
  const bool last = id / 32 % slices == slices - 1;
  const bool fetches = id < 3 * tiles_each;
  const u32 step = gridDim.x * tiles_each;
  const volatile u64* words = (const volatile u64*)tiles;
  u32 first = blockIdx.x * tiles_each;
  u64 field = 0;
  if (fetches && first + id / 3 < count) field = words[(u64)first * 3 + id];
  // Two buffers: who is still at the tiles of the last round reads the other one.
  for (u32 buffer = 0; first < count; first += step, buffer ^= 1) {
    if (fetches) fields[buffer][id] = field;
    __syncthreads();
    const u64 next = (u64)first + step;
    if (fetches && next + id / 3 < count) field = words[next * 3 + id];
    if (first + mine >= count) continue;
    const u64 target = fields[buffer][mine * 3];
    const u64 source = fields[buffer][mine * 3 + 1];
    const u64 bytes = fields[buffer][mine * 3 + 2];
    if (begin >= bytes) continue;
    const u64 left = bytes - begin;
    const u64 here = last || left < slice_bytes ? left : slice_bytes;
    move(target + begin, source == 0 ? 0 : source + begin, here, lane);
  }
}

extern "C" __global__ void __launch_bounds__(512, 2)
orbitkv_gather_warps(const Tile* tiles, u32 count, u32 slices, u32 slice_bytes) {
  const u32 lane = threadIdx.x % 32;
  const u32 warps = gridDim.x * (blockDim.x / 32);
  const u64 units = (u64)count * slices;
  const volatile u64* words = (const volatile u64*)tiles;
  // Slices of one tile go to different blocks, so that few tiles still use all of them.
  u64 unit = blockIdx.x + (u64)gridDim.x * (threadIdx.x / 32);
  u64 field = 0;
  if (lane < 3 && unit < units) field = words[(u32)unit / slices * 3 + lane];
  while (unit < units) {
    const u64 target = __shfl_sync(0xffffffffu, field, 0);
    const u64 source = __shfl_sync(0xffffffffu, field, 1);
    const u64 bytes = __shfl_sync(0xffffffffu, field, 2);
    const u32 slice = (u32)unit % slices;
    unit += warps;
    if (lane < 3 && unit < units) field = words[(u32)unit / slices * 3 + lane];
    const u64 begin = (u64)slice * slice_bytes;
    if (begin >= bytes) continue;
    const u64 left = bytes - begin;
    const u64 here = slice == slices - 1 || left < slice_bytes ? left : slice_bytes;
    move(target + begin, source == 0 ? 0 : source + begin, here, lane);
  }
}
)cuda";

}  // namespace orbitkv::kernels
