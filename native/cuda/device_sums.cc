#include "cuda/device_sums.h"

#include <algorithm>

#include "codec/crc32_combine.h"

namespace orbitkv::cuda {
namespace {

constexpr size_t kWordBytes = sizeof(uint32_t);
/// Checksums of one launch.
constexpr size_t kSumsMax = 1024;

/// Bytes in front of the runs.
constexpr size_t WordsBytes(size_t sums) {
  return (sums * kWordBytes + alignof(Crc32Run) - 1) / alignof(Crc32Run) * alignof(Crc32Run);
}
constexpr size_t kRegionBytes = WordsBytes(kSumsMax) + DeviceSums::kRunsMax * sizeof(Crc32Run);

}  // namespace

static_assert(kRegionBytes <= TileArena::kRegionBytesMax);

DeviceSums::DeviceSums(CudaDevice& device, RunSums& sums, TileArena& arena)
    : device_(device),
      sums_(sums),
      arena_(arena),
      memory_(device.Allocate(kRegionBytes, &words_)) {}

std::span<std::byte> DeviceSums::Reserve(std::span<const ChecksumStep> steps) {
  const size_t least = WordsBytes(1) + RunCount(steps[0]) * sizeof(Crc32Run);
  return arena_.Reserve(least, kRegionBytes);
}

Result DeviceSums::Launch(StreamPointer stream, std::span<std::byte> room,
                          std::span<const ChecksumStep> steps, size_t first_result, size_t* count) {
  size_t sums = 0, runs = 0;
  uint64_t covered = 0;
  for (; sums < steps.size() && sums < kSumsMax; ++sums) {
    const size_t more = RunCount(steps[sums]);
    if (WordsBytes(sums + 1) + (runs + more) * sizeof(Crc32Run) > room.size()) break;
    runs += more;
    covered += CoveredBytes(steps[sums]);
  }
  auto* words = reinterpret_cast<uint32_t*>(room.data());
  std::fill_n(words, sums, 0);
  Crc32Runs written(reinterpret_cast<Crc32Run*>(room.data() + WordsBytes(sums)), runs, covered,
                    sums_.warps());
  for (size_t sum = 0; sum < sums; ++sum) written.Add(steps[sum], static_cast<uint32_t>(sum));
  const size_t bytes = WordsBytes(sums) + runs * sizeof(Crc32Run);
  arena_.Commit(bytes);
  launched_ = {0, words, steps.first(sums), first_result};
  *count = sums;
  const Driver& driver = device_.driver();
  Result result = driver.cuMemcpyHtoDAsync(words_, words, bytes, stream);
  if (result == kSuccess) result = sums_.Launch(stream, words_ + WordsBytes(sums), written, words_);
  if (result == kSuccess)
    result = driver.cuMemcpyDtoHAsync(words, words_, sums * kWordBytes, stream);
  return result;
}

void DeviceSums::Expect(uint32_t fence) {
  launched_.fence = fence;
  pending_.push_back(launched_);
}

void DeviceSums::Collect(const Fences& fences, std::span<uint32_t> results) {
  for (; !pending_.empty() && fences.HasPassed(pending_.front().fence); pending_.pop_front()) {
    const Launched& launched = pending_.front();
    if (results.empty()) continue;
    for (size_t i = 0; i < launched.steps.size(); ++i)
      results[launched.first_result + i] =
          Crc32FromRemainder(launched.remainders[i], CoveredBytes(launched.steps[i]));
  }
}

}  // namespace orbitkv::cuda
