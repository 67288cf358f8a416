#include "codec/item_coding.h"

#include <cstring>

#include "base/whole_number.h"
#include "codec/crc32.h"
#include "codec/fp8.h"

namespace orbitkv {
namespace {

/// ITEM_CODING in src/shared/layout/descriptors.ts.
enum Field : size_t { kFormat, kScalar, kRole, kBits, kHeadDim, kSeed, kFields };
static_assert(kFields == kItemCodingDoubles);

/// The largest number of each field.
constexpr uint64_t kFieldMax[kFields] = {3, 3, 3, 4, 256, 0xffffffff};

Fp8Source SourceOf(const ItemCoding& coding) {
  return coding.narrow() == NarrowFloat::kFp16 ? Fp8Source::kFp16 : Fp8Source::kBf16;
}

bool IsNarrow(ItemScalar scalar) {
  return scalar == ItemScalar::kBf16 || scalar == ItemScalar::kFp16;
}

}  // namespace

TurboquantShape ItemCoding::turboquant() const {
  const TurboquantRole of_role = role == ItemRole::kKeys     ? TurboquantRole::kKeys
                                 : role == ItemRole::kValues ? TurboquantRole::kValues
                                                             : TurboquantRole::kPacked;
  return {narrow(), of_role, bits, head_dim, seed};
}

std::optional<ItemCoding> ReadItemCoding(std::span<const double> fields) {
  if (fields.size() != kFields) return std::nullopt;
  uint64_t whole[kFields];
  for (size_t field = 0; field < kFields; ++field)
    if (!WholeNumber(fields[field], &whole[field]) || whole[field] > kFieldMax[field])
      return std::nullopt;
  return ItemCoding{
      static_cast<ItemFormat>(whole[kFormat]), static_cast<ItemScalar>(whole[kScalar]),
      static_cast<ItemRole>(whole[kRole]),     static_cast<uint32_t>(whole[kBits]),
      static_cast<uint32_t>(whole[kHeadDim]),  static_cast<uint32_t>(whole[kSeed])};
}

const char* RuleBroken(const ItemCoding& coding, uint64_t bytes) {
  if (coding.format != ItemFormat::kTurboquant &&
      (coding.bits != 0 || coding.head_dim != 0 || coding.seed != 0))
    return "has bits, a head dimension or a seed, which are TurboQuant's";
  if (coding.raw()) return nullptr;
  if (bytes == 0 || bytes > kCodedBytesMax) return "is coded and not of 1 byte to 16 MiB";
  switch (coding.format) {
    case ItemFormat::kFp8:
      if (!IsNarrow(coding.scalar)) return "is coded by FP8 and not of bf16 or fp16";
      if (bytes % 2 != 0) return "is coded by FP8 and has half a value";
      return nullptr;
    case ItemFormat::kTurboquant:
      if (!IsNarrow(coding.scalar)) return "is coded by TurboQuant and not of bf16 or fp16";
      if (coding.role == ItemRole::kNone) return "is coded by TurboQuant and neither K nor V";
      if (!coding.turboquant().IsKnown())
        return "is coded by TurboQuant and not of 3 or 4 bits and 32, 64, 128 or 256 values a head";
      if (bytes % coding.turboquant().logical_bytes() != 0)
        return "is coded by TurboQuant and has a part of a vector";
      return nullptr;
    default:
      if (bytes < kAnsBytesMin) return "is coded by ANS and has less than 4096 bytes";
      if (IsNarrow(coding.scalar) && bytes % 2 != 0)
        return "is coded by ANS as 16-bit values and has half a value";
      return nullptr;
  }
}

uint64_t StoredBytes(const ItemCoding& coding, uint64_t bytes) {
  switch (coding.format) {
    case ItemFormat::kFp8:
      return bytes / 2;
    case ItemFormat::kTurboquant: {
      const TurboquantShape shape = coding.turboquant();
      return bytes / shape.logical_bytes() * shape.stored_bytes();
    }
    default:
      return bytes;
  }
}

uint64_t EncodeItem(const ItemCoding& coding, const std::byte* from, uint64_t bytes, std::byte* to,
                    uint64_t room) {
  const uint64_t stored = StoredBytes(coding, bytes);
  if (stored > room || !SavesEnough(stored, bytes)) return 0;
  auto* const codes = reinterpret_cast<uint8_t*>(to);
  if (coding.format == ItemFormat::kFp8)
    return Fp8Encode(Fp8Best(), SourceOf(coding), from, stored, codes) ? stored : 0;
  if (coding.format != ItemFormat::kTurboquant) return 0;
  const TurboquantShape shape = coding.turboquant();
  const uint64_t count = bytes / shape.logical_bytes();
  return TurboquantEncode(TurboquantBest(), shape, from, count, codes) ? stored : 0;
}

bool DecodeItem(const ItemCoding& coding, const std::byte* from, uint64_t stored, std::byte* to,
                uint64_t bytes) {
  if (stored != StoredBytes(coding, bytes)) return false;
  const auto* const codes = reinterpret_cast<const uint8_t*>(from);
  if (coding.format == ItemFormat::kFp8)
    return Fp8Decode(Fp8Best(), SourceOf(coding), codes, stored, to);
  if (coding.format != ItemFormat::kTurboquant) return false;
  const TurboquantShape shape = coding.turboquant();
  return TurboquantDecode(TurboquantBest(), shape, codes, bytes / shape.logical_bytes(), to);
}

StoredItem StoreItem(const ItemCoding& coding, const std::byte* from, uint64_t bytes, std::byte* to,
                     uint64_t room) {
  uint64_t stored = EncodeItem(coding, from, bytes, to, room);
  if (stored == 0) {
    if (room < bytes) return {0, 0};
    std::memcpy(to, from, bytes);
    stored = bytes;
  }
  std::memset(to + stored, 0, AlignCoded(stored) - stored);
  return {stored, orbitkv::crc32(0, to, stored)};
}

}  // namespace orbitkv
