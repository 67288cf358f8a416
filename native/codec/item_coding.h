#pragma once

// How one item of a copy template is stored, and the codings that the processor has. An item is
// stored as its coding only when that saves an eighth of the room; else as it is.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "codec/turboquant.h"

namespace orbitkv {

/// ITEM_FORMAT, ITEM_SCALAR and ITEM_ROLE in src/shared/layout/descriptors.ts.
enum class ItemFormat : uint8_t { kRaw, kFp8, kTurboquant, kAns };
enum class ItemScalar : uint8_t { kBytes, kBf16, kFp16, kE4m3 };
enum class ItemRole : uint8_t { kNone, kKeys, kValues, kPacked };

/// ITEM_CODING there, after checking.
struct ItemCoding {
  ItemFormat format = ItemFormat::kRaw;
  ItemScalar scalar = ItemScalar::kBytes;
  ItemRole role = ItemRole::kNone;
  uint32_t bits = 0;
  uint32_t head_dim = 0;
  uint32_t seed = 0;

  bool raw() const { return format == ItemFormat::kRaw; }
  /// Whether this file's functions code it; ANS is coded by devices alone.
  bool on_processor() const { return format != ItemFormat::kAns; }
  /// Of format fp8: what its values are.
  NarrowFloat narrow() const {
    return scalar == ItemScalar::kFp16 ? NarrowFloat::kFp16 : NarrowFloat::kBf16;
  }
  /// Of format turboquant.
  TurboquantShape turboquant() const;
};

inline constexpr size_t kItemCodingDoubles = 6;
/// Codings start and end on such bounds, in the pool and on disks.
inline constexpr uint64_t kCodedAlign = 512;
/// Larger items are not coded.
inline constexpr uint64_t kCodedBytesMax = uint64_t{16} << 20;
/// nvCOMP's: ANS reports nothing of tiny items, and reads words of 8 bytes.
inline constexpr uint64_t kAnsBytesMin = 4096;
inline constexpr uint64_t kAnsAlign = 8;

constexpr uint64_t AlignCoded(uint64_t bytes) {
  return (bytes + kCodedAlign - 1) / kCodedAlign * kCodedAlign;
}

/// Whether a coding of `stored` bytes is kept in place of an item of `bytes`.
constexpr bool SavesEnough(uint64_t stored, uint64_t bytes) {
  return AlignCoded(stored) * 8 <= AlignCoded(bytes) * 7;
}

/// The most bytes that SavesEnough() lets a coding have, in whole multiples of kCodedAlign.
constexpr uint64_t KeptBytesMax(uint64_t bytes) {
  return AlignCoded(bytes) * 7 / 8 / kCodedAlign * kCodedAlign;
}

/// One ITEM_CODING; nothing when a field is no number of its kind. Says nothing of an item.
std::optional<ItemCoding> ReadItemCoding(std::span<const double> fields);

/// The rule that a coding of an item of `bytes` bytes breaks; null when it breaks none.
const char* RuleBroken(const ItemCoding& coding, uint64_t bytes);

/// What a coding of fixed length has for an item of `bytes` bytes; `bytes` for raw items and for
/// ANS, whose codings have no length before they are made.
uint64_t StoredBytes(const ItemCoding& coding, uint64_t bytes);

/// Encodes an item into `to`, which has room for `room` bytes. Returns the coding's bytes, or 0:
/// the item has no coding, or none that fits and saves enough; then `to` holds nothing of worth.
/// `coding` is one that breaks no rule. Neither pointer needs alignment; the ranges may not
/// overlap.
uint64_t EncodeItem(const ItemCoding& coding, const std::byte* from, uint64_t bytes, std::byte* to,
                    uint64_t room);

/// Decodes an item of `bytes` bytes from its coding of `stored`. False when those bytes are no
/// coding of it, also for ANS; then `to` holds nothing of worth. As EncodeItem otherwise.
bool DecodeItem(const ItemCoding& coding, const std::byte* from, uint64_t stored, std::byte* to,
                uint64_t bytes);

/// What came of storing an item.
struct StoredItem {
  uint64_t bytes;  // 0: nothing is stored
  uint32_t crc32;  // of these bytes; 0 when there are none
};

/// Stores an item at `to`: its coding, or the item as it is where that fits. Zeroes follow up to
/// the next multiple of kCodedAlign; `room` is such a multiple.
StoredItem StoreItem(const ItemCoding& coding, const std::byte* from, uint64_t bytes, std::byte* to,
                     uint64_t room);

}  // namespace orbitkv
