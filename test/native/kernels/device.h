// A device of one multiprocessor and one thread at a time, on which the text of a kernel runs as it
// is: every thread of a block is a fiber that goes on until it meets the others of its warp or
// block. In which order they go is drawn from a seed, so that what no barrier orders comes in any
// order. A thread that waits for one that will never come ends the program.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#define __global__
#define __device__
#define __shared__ static __attribute__((section("device_shared")))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
struct alignas(8) uint2 {
  uint32_t x, y;
};
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }

// Rounded as their names say; compiled without contraction (-ffp-contract=off).
inline uint32_t __float_as_uint(float f) { return std::bit_cast<uint32_t>(f); }
inline float __uint_as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fadd_rd(float a, float b) {
  const float sum = a + b;
  // The sum of two floats is exact in a double, within the range that kernels use.
  return sum > static_cast<double>(a) + b ? std::nextafter(sum, -INFINITY) : sum;
}
using std::fmaxf;
using std::fminf;

struct Dimension {
  uint32_t x;
};
inline Dimension threadIdx, blockIdx, blockDim, gridDim;

/// Shared memory of every kernel: what a block finds in it is nobody's.
extern "C" uint8_t __start_device_shared[], __stop_device_shared[];

namespace device {

constexpr uint32_t kWarp = 32;
constexpr size_t kStackBytes = 64 << 10;

[[noreturn]] inline void Die(const char* why) {
  std::printf("%s\n", why);
  std::fflush(stdout);
  std::_Exit(3);
}

/// Where threads meet: the last one to come lets all go on.
struct Meeting {
  uint32_t size;
  uint32_t arrived = 0;
  uint64_t round = 0;
};

struct Warp {
  Meeting meeting{kWarp};
  uint64_t values[2][kWarp];
};

struct Block {
  std::vector<ucontext_t> threads;
  std::vector<std::unique_ptr<char[]>> stacks;
  std::vector<bool> ended;
  std::vector<Warp> warps;
  Meeting meeting{0};
  ucontext_t scheduler;
  uint32_t running = 0;
  uint64_t rounds = 0;  // of all meetings: that somebody got on
  std::function<void()> body;
};
inline Block* block;

inline void Yield() {
  const uint32_t me = block->running;
  swapcontext(&block->threads[me], &block->scheduler);
  threadIdx.x = me;
}

/// Returns the number of the round in which all met.
inline uint64_t Meet(Meeting& meeting) {
  const uint64_t round = meeting.round;
  if (++meeting.arrived == meeting.size) {
    meeting.arrived = 0;
    ++meeting.round;
    ++block->rounds;
  }
  while (meeting.round == round) Yield();
  return round;
}

inline void Enter() {
  block->body();
  block->ended[block->running] = true;
  ++block->rounds;
  swapcontext(&block->threads[block->running], &block->scheduler);
}

inline void RunBlock(uint32_t threads, std::mt19937_64& order, std::function<void()> body) {
  Block here;
  block = &here;
  std::fill(__start_device_shared, __stop_device_shared, uint8_t{0xa5});
  here.body = std::move(body);
  here.threads.resize(threads);
  here.ended.assign(threads, false);
  here.warps.resize(threads / kWarp);
  here.meeting.size = threads;
  for (uint32_t t = 0; t < threads; ++t) {
    here.stacks.emplace_back(new char[kStackBytes]);
    getcontext(&here.threads[t]);
    here.threads[t].uc_stack.ss_sp = here.stacks[t].get();
    here.threads[t].uc_stack.ss_size = kStackBytes;
    here.threads[t].uc_link = nullptr;
    makecontext(&here.threads[t], Enter, 0);
  }
  std::vector<uint32_t> turn(threads);
  for (uint32_t t = 0; t < threads; ++t) turn[t] = t;
  const auto resume = [&](uint32_t thread) {
    if (here.ended[thread]) return;
    here.running = thread;
    threadIdx.x = thread;
    swapcontext(&here.scheduler, &here.threads[thread]);
  };
  // Either thread by thread, or each warp as far as it comes without the others.
  const bool greedy = order() % 2 == 0;
  while (!std::all_of(here.ended.begin(), here.ended.end(), [](bool ended) { return ended; })) {
    const uint64_t before = here.rounds;
    std::shuffle(turn.begin(), turn.end(), order);
    if (!greedy) std::for_each(turn.begin(), turn.end(), resume);
    for (size_t i = 0; greedy && i < turn.size(); ++i) {
      uint64_t seen;
      do {
        seen = here.rounds;
        for (uint32_t lane = 0; lane < kWarp; ++lane) resume(turn[i] / kWarp * kWarp + lane);
      } while (here.rounds != seen);
    }
    if (here.rounds == before) Die("threads wait for each other, and nobody comes");
  }
}

/// Runs a kernel; blocks one after the other, in any order.
inline void Launch(uint32_t grid, uint32_t threads, uint64_t seed, std::function<void()> body) {
  std::mt19937_64 order(seed);
  std::vector<uint32_t> blocks(grid);
  for (uint32_t b = 0; b < grid; ++b) blocks[b] = b;
  std::shuffle(blocks.begin(), blocks.end(), order);
  gridDim.x = grid;
  blockDim.x = threads;
  for (const uint32_t b : blocks) {
    blockIdx.x = b;
    RunBlock(threads, order, body);
  }
}

}  // namespace device

inline void __syncthreads() { device::Meet(device::block->meeting); }

template <class T>
T Exchange(uint32_t mask, T value, uint32_t from) {
  if (mask != 0xffffffffu) device::Die("a shuffle of less than a warp");
  const uint32_t lane = threadIdx.x % device::kWarp;
  device::Warp& warp = device::block->warps[threadIdx.x / device::kWarp];
  std::memcpy(&warp.values[warp.meeting.round % 2][lane], &value, sizeof value);
  const uint64_t round = device::Meet(warp.meeting);
  std::memcpy(&value, &warp.values[round % 2][from], sizeof value);
  return value;
}
template <class T>
T __shfl_sync(uint32_t mask, T value, uint32_t from) {
  return Exchange(mask, value, from);
}
template <class T>
T __shfl_xor_sync(uint32_t mask, T value, uint32_t flip) {
  return Exchange(mask, value, (threadIdx.x % device::kWarp) ^ flip);
}
inline bool __any_sync(uint32_t mask, bool value) {
  uint32_t any = value;
  for (uint32_t flip = 1; flip < device::kWarp; flip *= 2) any |= __shfl_xor_sync(mask, any, flip);
  return any != 0;
}
inline uint32_t __ballot_sync(uint32_t mask, bool value) {
  uint32_t all = static_cast<uint32_t>(value) << threadIdx.x % device::kWarp;
  for (uint32_t flip = 1; flip < device::kWarp; flip *= 2) all |= __shfl_xor_sync(mask, all, flip);
  return all;
}
inline uint32_t __popc(uint32_t value) { return static_cast<uint32_t>(std::popcount(value)); }
inline void __syncwarp() {
  device::Meet(device::block->warps[threadIdx.x / device::kWarp].meeting);
}
inline uint32_t atomicXor(uint32_t* at, uint32_t value) {
  const uint32_t before = *at;
  *at ^= value;
  return before;
}
