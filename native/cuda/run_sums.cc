#include "cuda/run_sums.h"

namespace orbitkv::cuda {
namespace {

/// Blocks for each multiprocessor: as many as its registers allow.
constexpr uint32_t kBlocks = 4;
constexpr uint32_t kBlockWarps = 8;

}  // namespace

RunSums::RunSums(CudaDevice& device, const Kernels& kernels)
    : device_(device), kernels_(kernels), memory_(device.Allocate(sizeof(Crc32Powers), &powers_)) {}

uint64_t RunSums::warps() const {
  return uint64_t{device_.multiprocessors()} * kBlocks * kBlockWarps;
}

Result RunSums::Launch(StreamPointer stream, DeviceAddress runs, const Crc32Runs& written,
                       DeviceAddress sums) {
  if (!powers_brought_) {
    // They stay where they are until the process ends.
    const Crc32Powers& powers = GrainPowers();
    const Result brought =
        device_.driver().cuMemcpyHtoDAsync(powers_, powers.data(), sizeof powers, stream);
    if (brought != kSuccess) return brought;
    powers_brought_ = true;
  }
  return kernels_.Crc32(stream, runs, written.count(), written.pieces(), written.piece_bytes(),
                        powers_, sums, device_.multiprocessors() * kBlocks);
}

}  // namespace orbitkv::cuda
