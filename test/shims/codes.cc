// The kernels that code items, for the twin of libcuda (libcuda.c): the processor's own codings.
#include <cstring>

#include "codec/crc32.h"
#include "codec/crc32_combine.h"
#include "codec/item_coding.h"
#include "cuda/code_items.h"

using namespace orbitkv;

namespace {

ItemCoding CodingOf(const cuda::CodeItem& item) {
  ItemCoding coding;
  coding.format = static_cast<ItemFormat>(item.coding & 255);
  coding.scalar = static_cast<ItemScalar>(item.coding >> 8 & 255);
  coding.role = static_cast<ItemRole>(item.coding >> 16 & 255);
  coding.bits = item.coding >> 24;
  coding.head_dim = item.head_dim;
  coding.seed = item.seed;
  return coding;
}

std::byte* At(uint64_t address) { return reinterpret_cast<std::byte*>(address); }

}  // namespace

extern "C" int orbitkv_encode_item(const cuda::CodeItem* item, uint32_t* sum) {
  const uint64_t stored =
      EncodeItem(CodingOf(*item), At(item->page), item->bytes, At(item->coded), item->padded);
  std::memset(At(item->coded) + item->stored, 0, item->padded - item->stored);
  // What a CRC32 is made of a remainder by, makes the remainder of the CRC32.
  if ((item->unit & cuda::kSummed) != 0)
    *sum ^= Crc32FromRemainder(crc32(0, At(item->coded), item->stored), item->stored);
  return stored == item->stored;
}

extern "C" int orbitkv_decode_item(const cuda::CodeItem* item) {
  return DecodeItem(CodingOf(*item), At(item->coded), item->stored, At(item->page), item->bytes);
}
