#include "cuda/piece_sums.h"

namespace orbitkv::cuda {
namespace {

/// Blocks for each multiprocessor: as many as its shared memory has tables for.
constexpr uint32_t kBlocks = 6;

}  // namespace

PieceSums::PieceSums(CudaDevice& device, const Kernels& kernels)
    : device_(device),
      kernels_(kernels),
      memory_(device.Allocate(kPiecesMax * sizeof(Crc32Piece), &pieces_)) {}

Result PieceSums::Feed(StreamPointer stream, const Crc32Piece* pieces, uint32_t count) const {
  return device_.driver().cuMemcpyHtoDAsync(pieces_, pieces, count * sizeof(Crc32Piece), stream);
}

Result PieceSums::Launch(StreamPointer stream, uint32_t count, DeviceAddress sums) const {
  return kernels_.Crc32(stream, pieces_, count, sums, device_.multiprocessors() * kBlocks);
}

}  // namespace orbitkv::cuda
