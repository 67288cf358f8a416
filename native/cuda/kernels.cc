#include "cuda/kernels.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/system_error.h"
#include "cuda/compiler.h"
#include "cuda/kernel_cache.h"

namespace orbitkv::cuda {
namespace {

constexpr uint32_t kMoveThreads = 512;
constexpr uint32_t kCrc32Threads = 256;
constexpr uint32_t kWarpThreads = 32;

/// The driver wants none of what the cache kept: a kernel of another world.
bool IsStale(Result result) {
  return result == kInvalidImage || result == kNoBinary || result == kInvalidPtx;
}

Result Launch(const Driver& driver, Function function, uint32_t count, uint32_t blocks,
              uint32_t threads, StreamPointer stream, void** arguments) {
  const uint32_t warps = threads / kWarpThreads;
  // Few pieces of work are spread over many blocks: each has its own path to memory.
  const uint32_t grid = std::max(1u, std::min(blocks, count));
  const uint32_t busy = std::min(warps, (count + grid - 1) / grid);
  const uint32_t width = threads == kMoveThreads ? std::max(1u, busy) * kWarpThreads : threads;
  return driver.cuLaunchKernel(function, grid, 1, 1, width, 1, 1, 0, stream, arguments, nullptr);
}

}  // namespace

Module LoadProgram(const Driver& driver, const char* name, int architecture) {
  const auto& sources = KernelSources();
  const auto source = std::find_if(sources.begin(), sources.end(),
                                   [name](const auto& each) { return each.name == name; });
  Module module = nullptr;
  CompiledKernel compiled = Compile(*source, architecture);
  Result loaded = driver.cuModuleLoadData(&module, compiled.image.data());
  if (compiled.cached && IsStale(loaded)) {
    KernelCache::RemoveFile(compiled.cache_path);
    compiled = Compile(*source, architecture);
    loaded = driver.cuModuleLoadData(&module, compiled.image.data());
  }
  driver.Require(loaded, std::string("Cannot load kernel ") + name);
  return module;
}

Function FindKernel(const Driver& driver, Module module, const char* name) {
  Function function = nullptr;
  driver.Require(driver.cuModuleGetFunction(&function, module, name),
                 std::string("Cannot find kernel ") + name);
  return function;
}

Kernels::Kernels(const Driver& driver, int architecture) : driver_(driver) {
  const Module move = LoadProgram(driver, "orbitkv_move", architecture);
  move_ = FindKernel(driver, move, "orbitkv_move");
  gather_ = FindKernel(driver, move, "orbitkv_gather");
  gather_warps_ = FindKernel(driver, move, "orbitkv_gather_warps");
  crc32_ = FindKernel(driver, LoadProgram(driver, "orbitkv_crc32", architecture), "orbitkv_crc32");
}

Result Kernels::Move(StreamPointer stream, DeviceAddress tiles, uint32_t count,
                     uint32_t blocks) const {
  void* arguments[] = {&tiles, &count};
  return Launch(driver_, move_, count, blocks, kMoveThreads, stream, arguments);
}

Result Kernels::Gather(StreamPointer stream, DeviceAddress tiles, uint32_t count, uint32_t slices,
                       uint32_t slice_bytes, uint32_t blocks, bool warps) const {
  void* arguments[] = {&tiles, &count, &slices, &slice_bytes};
  const uint32_t tiles_each = kMoveThreads / kWarpThreads / slices;
  const uint32_t grid = std::max(1u, std::min(blocks, (count + tiles_each - 1) / tiles_each));
  return driver_.cuLaunchKernel(warps ? gather_warps_ : gather_, grid, 1, 1, kMoveThreads, 1, 1, 0,
                                stream, arguments, nullptr);
}

Result Kernels::Crc32(StreamPointer stream, DeviceAddress runs, uint32_t count, uint32_t pieces,
                      uint32_t piece_bytes, DeviceAddress powers, DeviceAddress results,
                      uint32_t blocks) const {
  void* arguments[] = {&runs, &count, &pieces, &piece_bytes, &powers, &results};
  return Launch(driver_, crc32_, pieces, blocks, kCrc32Threads, stream, arguments);
}

}  // namespace orbitkv::cuda
