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
  uint32_t unused;
};
static_assert(sizeof(CodeItem) == 48);

/// Items of one launch.
inline constexpr uint32_t kCodeItemsMax = 256;

/// Units of an item in a launch, a warp each.
constexpr uint32_t UnitCount(const ItemCoding& coding, uint64_t bytes) {
  constexpr uint64_t kFp8Bytes = 4096;
  constexpr uint64_t kVectors = 16;
  const uint64_t unit =
      coding.format == ItemFormat::kFp8 ? kFp8Bytes : kVectors * coding.head_dim * 2;
  return static_cast<uint32_t>((bytes + unit - 1) / unit);
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
