#include "cuda/device_sums.h"

#include "codec/crc32_combine.h"
#include "cuda/checksum_pieces.h"

namespace orbitkv::cuda {
namespace {

constexpr size_t kSumBytes = sizeof(uint32_t);
/// Checksums of one launch.
constexpr size_t kSumsMax = 1024;

}  // namespace

static_assert(DeviceSums::kPiecesMax * sizeof(Crc32Piece) + kSumBytes <=
              TileArena::kRegionBytesMax);

DeviceSums::DeviceSums(CudaDevice& device, const PieceSums& pieces, TileArena& arena)
    : device_(device),
      pieces_(pieces),
      arena_(arena),
      memory_(device.Allocate(kSumsMax * kSumBytes, &sums_)) {}

std::span<std::byte> DeviceSums::Reserve(std::span<const ChecksumStep> steps) {
  const size_t least = PieceCount(steps[0]) * sizeof(Crc32Piece) + kSumBytes;
  return arena_.Reserve(least, TileArena::kRegionBytesMax);
}

Result DeviceSums::Launch(StreamPointer stream, std::span<std::byte> room,
                          std::span<const ChecksumStep> steps, size_t first_result, size_t* count) {
  auto* pieces = reinterpret_cast<Crc32Piece*>(room.data());
  size_t sums = 0, used = 0, most = 0;
  uint64_t covered = 0;
  for (; sums < steps.size() && sums < kSumsMax; ++sums) {
    most += PieceCount(steps[sums]);
    if (most * sizeof(Crc32Piece) + (sums + 1) * kSumBytes > room.size()) break;
    covered += CoveredBytes(steps[sums]);
  }
  const uint32_t piece_bytes = PieceBytes(covered);
  for (size_t sum = 0; sum < sums; ++sum)
    used += WritePieces(steps[sum], static_cast<uint32_t>(sum), piece_bytes, pieces + used);
  auto* remainders = reinterpret_cast<uint32_t*>(pieces + used);
  arena_.Commit(used * sizeof(Crc32Piece) + sums * kSumBytes);
  launched_ = {0, remainders, steps.first(sums), first_result};
  *count = sums;
  const Driver& driver = device_.driver();
  const auto fed = static_cast<uint32_t>(used);
  Result result = pieces_.Feed(stream, pieces, fed);
  if (result == kSuccess) result = driver.cuMemsetD8Async(sums_, 0, sums * kSumBytes, stream);
  if (result == kSuccess) result = pieces_.Launch(stream, fed, sums_);
  if (result == kSuccess)
    result = driver.cuMemcpyDtoHAsync(remainders, sums_, sums * kSumBytes, stream);
  return result;
}

void DeviceSums::Expect(uint32_t fence) {
  launched_.fence = fence;
  pending_.push_back(launched_);
}

void DeviceSums::Collect(const Fences& fences, std::span<uint32_t> results) {
  for (; !pending_.empty() && fences.HasPassed(pending_.front().fence); pending_.pop_front()) {
    const Piece& piece = pending_.front();
    if (results.empty()) continue;
    for (size_t i = 0; i < piece.steps.size(); ++i)
      results[piece.first_result + i] =
          Crc32FromRemainder(piece.remainders[i], CoveredBytes(piece.steps[i]));
  }
}

}  // namespace orbitkv::cuda
