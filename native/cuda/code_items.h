#pragma once

#include <cstdint>

#include "codec/item_coding.h"
#include "cuda/driver.h"

/// What an item becomes for the kernels that code it (native/kernels/code_source.h). Nothing here
/// touches a device.
namespace orbitkv::cuda {

/// What those kernels read.
struct CodeItem {
  uint64_t page;
  uint64_t coded;
  uint32_t bytes;
  uint32_t stored;
  uint32_t padded;
  uint32_t first_unit;
  uint32_t coding;
  uint32_t head_dim;
  uint32_t seed;
  /// Of FP8: bytes of a unit, and kSummed for one that the encoding kernel sums.
  uint32_t unit;
};
static_assert(sizeof(CodeItem) == 48);

/// Items of one launch.
inline constexpr uint32_t kCodeItemsMax = 256;

/// Steps of FP8, of which its units consist: bytes of a page, and of codes.
inline constexpr uint32_t kFp8StepBytes = 4096;
inline constexpr uint32_t kFp8StepCodes = 2048;
/// Powers of x for sums of FP8: of each lane, then of 0 to 1023 steps.
inline constexpr uint32_t kFp8LanePowers = 32;
inline constexpr uint32_t kFp8StepPowersMax = 1024;
inline constexpr uint32_t kSummed = 0x80000000;

/// Units of an item in a launch, a warp each; `fp8_unit` bytes of FP8 each.
constexpr uint32_t UnitCount(const ItemCoding& coding, uint64_t bytes, uint64_t fp8_unit) {
  constexpr uint64_t kVectors = 16;
  const uint64_t unit =
      coding.format == ItemFormat::kFp8 ? fp8_unit : kVectors * coding.head_dim * 2;
  return static_cast<uint32_t>((bytes + unit - 1) / unit);
}

/// Whether the kernel that encodes an item of FP8 can sum it.
constexpr bool IsSummable(const CodeItem& fp8) {
  return fp8.page % 16 == 0 && fp8.coded % 8 == 0 && fp8.bytes % kFp8StepBytes == 0 &&
         fp8.bytes <= kFp8StepPowersMax * kFp8StepBytes;
}

/// An item whose coding has `stored` bytes, followed by zeroes up to `padded`.
constexpr CodeItem DescribeItem(const ItemCoding& coding, DeviceAddress page, DeviceAddress coded,
                                uint64_t bytes, uint64_t stored, uint64_t padded,
                                uint32_t first_unit) {
  const auto kind = static_cast<uint32_t>(coding.format) |
                    static_cast<uint32_t>(coding.scalar) << 8 |
                    static_cast<uint32_t>(coding.role) << 16 | coding.bits << 24;
  return {page,
          coded,
          static_cast<uint32_t>(bytes),
          static_cast<uint32_t>(stored),
          static_cast<uint32_t>(padded),
          first_unit,
          kind,
          coding.head_dim,
          coding.seed,
          0};
}

}  // namespace orbitkv::cuda
