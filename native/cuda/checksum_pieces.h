#pragma once

#include <cstdint>

#include "cuda/kernels.h"
#include "device/jobs.h"

/// What a checksum becomes for orbitkv_crc32. Nothing here touches a device.
namespace orbitkv::cuda {

/// How many pieces a checksum has; each has at most Crc32Piece::kBytesMax bytes.
uint64_t PieceCount(const ChecksumStep& step);
/// Bytes that a checksum covers.
uint64_t CoveredBytes(const ChecksumStep& step);
/// Writes the pieces of a checksum whose remainder goes to results[result].
void WritePieces(const ChecksumStep& step, uint32_t result, Crc32Piece* pieces);

}  // namespace orbitkv::cuda
