#include "cuda/code_kernels.h"

#include <algorithm>

#include "base/system_error.h"
#include "cuda/code_items.h"
#include "cuda/kernels.h"

namespace orbitkv::cuda {
namespace {

constexpr uint32_t kThreads = 256;
/// Programs and the names of their kernels, as KernelSources() has them.
constexpr const char* kNames[CodeKernels::kPrograms] = {
    "orbitkv_fp8",
    "orbitkv_turboquant_32_3",
    "orbitkv_turboquant_32_4",
    "orbitkv_turboquant_64_3",
    "orbitkv_turboquant_64_4",
    "orbitkv_turboquant_128_3",
    "orbitkv_turboquant_128_4",
    "orbitkv_turboquant_256_3",
    "orbitkv_turboquant_256_4",
};

Result Launch(const Driver& driver, Function function, StreamPointer stream, DeviceAddress items,
              uint32_t count, uint32_t units, DeviceAddress flags, uint32_t blocks) {
  void* arguments[] = {&items, &count, &units, &flags};
  // A unit is a warp's, and few of them are spread over many blocks.
  const uint32_t grid = std::max(1u, std::min(blocks, units));
  return driver.cuLaunchKernel(function, grid, 1, 1, kThreads, 1, 1, 0, stream, arguments, nullptr);
}

}  // namespace

Result CodeKernel::Encode(StreamPointer stream, DeviceAddress items, uint32_t count, uint32_t units,
                          DeviceAddress flags, uint32_t blocks) const {
  return Launch(*driver_, encode_, stream, items, count, units, flags, blocks);
}

Result CodeKernel::Decode(StreamPointer stream, DeviceAddress items, uint32_t count, uint32_t units,
                          DeviceAddress flags, uint32_t blocks) const {
  return Launch(*driver_, decode_, stream, items, count, units, flags, blocks);
}

size_t CodeKernels::ProgramOf(const ItemCoding& coding) {
  if (coding.format == ItemFormat::kFp8) return kFp8;
  if (coding.format != ItemFormat::kTurboquant) return kPrograms;
  size_t shape = 0;
  for (uint32_t dim = 32; dim < coding.head_dim; dim *= 2) ++shape;
  return 1 + shape * 2 + (coding.bits - 3);
}

const CodeKernel* CodeKernels::Load(size_t program, int architecture) {
  const std::lock_guard lock(mutex_);
  Loaded& loaded = programs_[program];
  if (!loaded.tried) {
    loaded.tried = true;
    try {
      const Module module = LoadProgram(driver_, kNames[program], architecture);
      const std::string name = program == kFp8 ? "orbitkv_fp8" : "orbitkv_turboquant";
      loaded.kernel.driver_ = &driver_;
      loaded.kernel.encode_ = FindKernel(driver_, module, (name + "_encode").c_str());
      loaded.kernel.decode_ = FindKernel(driver_, module, (name + "_decode").c_str());
      loaded.works = true;
    } catch (const SystemError&) {
      // Who asked does without: the processor has the same codings.
    }
  }
  return loaded.works ? &loaded.kernel : nullptr;
}

}  // namespace orbitkv::cuda
