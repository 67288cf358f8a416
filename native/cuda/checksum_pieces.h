#pragma once

#include <cstdint>

#include "cuda/kernels.h"
#include "device/jobs.h"

/// What a checksum becomes for orbitkv_crc32. Nothing here touches a device.
namespace orbitkv::cuda {

/// How many pieces a checksum has at most.
uint64_t PieceCount(const ChecksumStep& step);
/// Bytes that a checksum covers.
uint64_t CoveredBytes(const ChecksumStep& step);
/// How long pieces are in a launch that covers `bytes`: short ones give every warp some of a small
/// one, long ones leave the processor less to write down.
uint32_t PieceBytes(uint64_t bytes);
/// Writes the pieces of a checksum whose remainder goes to results[result], `piece_bytes` each as
/// PieceBytes() has them. Returns how many there are.
uint64_t WritePieces(const ChecksumStep& step, uint32_t result, uint32_t piece_bytes,
                     Crc32Piece* pieces);

}  // namespace orbitkv::cuda
