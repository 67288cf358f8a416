// What the kernels that code items promise, run on the device of device.h: the bytes of
// native/codec and its refusals, at any alignment, whatever the order of threads, and no byte
// beside them. The kernels' text comes from a file that codes.test.ts cuts out of native/kernels:
// as it is in entry 0 and on, one for each shape, and broken in those behind it, which must end
// this program. Arguments: the number of an entry, how many seeds. Exits 0 when every claim held.
#include "codec/crc32.h"
#include "codec/crc32_combine.h"
#include "codec/item_coding.h"
#include "device.h"
#include "edged.h"

struct Text {
  uint32_t head_dim;  // 0: FP8
  uint32_t bits;
  void (*encode)(const void* items, uint32_t count, uint32_t units, uint32_t* flags);
  void (*decode)(const void* items, uint32_t count, uint32_t units, uint32_t* flags);
};

#define ORBITKV_TEXT(name, kernel, dim, bits)                                \
  Text {                                                                     \
    dim, bits,                                                               \
        [](const void* i, uint32_t n, uint32_t u, uint32_t* f) {             \
          name::kernel##_encode(static_cast<const name::Item*>(i), n, u, f); \
        },                                                                   \
        [](const void* i, uint32_t n, uint32_t u, uint32_t* f) {             \
          name::kernel##_decode(static_cast<const name::Item*>(i), n, u, f); \
        },                                                                   \
  }

#include TEXTS

#include "cuda/code_items.h"

using namespace orbitkv;

namespace {

using cuda::CodeItem;

/// Values of a drawn temper: most are of a model's, some are none that a coding has.
uint16_t Value(std::mt19937_64& draw, bool bf16, int temper) {
  if (temper == 0) return static_cast<uint16_t>(draw());
  const bool tiny = temper == 1 || (temper % 4 == 3 && draw() % 2 == 0);
  if (tiny) return static_cast<uint16_t>((draw() & 0x8000) | (draw() % (bf16 ? 0x0300 : 4)));
  // Magnitudes around 1, of a few binades; 2: all alike but for the sign.
  const uint16_t one = bf16 ? 0x3f80 : 0x3c00;
  const auto spread = static_cast<uint16_t>(temper == 2 ? 0 : draw() % (bf16 ? 0x180 : 0xc00));
  return static_cast<uint16_t>((draw() & 0x8000) | (one - spread));
}

void CodeOnce(const Text& text, uint64_t seed) {
  std::mt19937_64 draw(seed);
  const auto below = [&](uint64_t end) { return draw() % end; };
  struct Case {
    ItemCoding coding;
    uint64_t page, coded, bytes, stored;
  };
  std::vector<Case> cases;
  uint64_t page_end = below(40), coded_end = below(40);
  for (uint64_t count = 1 + below(5); count > 0; --count) {
    ItemCoding coding;
    coding.scalar = below(2) == 0 ? ItemScalar::kBf16 : ItemScalar::kFp16;
    uint64_t bytes;
    if (text.head_dim == 0) {
      coding.format = ItemFormat::kFp8;
      coding.role = ItemRole::kPacked;
      bytes = below(3) == 0 ? cuda::kFp8StepBytes * (1 + below(7))
                            : 2 * (1 + below(below(2) == 0 ? 40 : 6000));
    } else {
      coding.format = ItemFormat::kTurboquant;
      coding.role = static_cast<ItemRole>(1 + below(3));
      coding.bits = text.bits;
      coding.head_dim = text.head_dim;
      coding.seed = static_cast<uint32_t>(draw());
      const uint64_t vectors = 1 + below(45);
      bytes = vectors * text.head_dim * (coding.role == ItemRole::kPacked ? 4 : 2);
    }
    if (below(3) != 0) page_end = (page_end + 15) / 16 * 16, coded_end = (coded_end + 15) / 16 * 16;
    const uint64_t stored = StoredBytes(coding, bytes);
    cases.push_back({coding, page_end, coded_end, bytes, stored});
    page_end += bytes + below(50);
    coded_end += AlignCoded(stored) + below(50);
  }
  const Case& last = cases.back();
  Edged pages(last.page + last.bytes), coded(last.coded + AlignCoded(last.stored));
  std::memset(pages.data(), 0x5a, pages.size());
  std::memset(coded.data(), 0x5a, coded.size());
  std::vector<uint8_t> expected(coded.data(), coded.data() + coded.size());
  std::vector<CodeItem> items;
  // Flags, then sums, then powers of x.
  const size_t sums = cases.size();
  std::vector<uint32_t> flags(2 * sums + cuda::kFp8LanePowers + 100), refused(cases.size());
  for (uint32_t i = 0; i < cuda::kFp8LanePowers; ++i)
    flags[2 * sums + i] = Crc32Shift(8 * (31 - i));
  for (uint32_t i = 0; i < 100; ++i)
    flags[2 * sums + cuda::kFp8LanePowers + i] = Crc32Shift(i * cuda::kFp8StepCodes);
  const auto fp8_unit = cuda::kFp8StepBytes * (1 + static_cast<uint32_t>(below(3)));
  uint32_t units = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& one = cases[i];
    const int temper = static_cast<int>(below(24));
    const bool bf16 = one.coding.scalar == ItemScalar::kBf16;
    for (uint64_t at = 0; at < one.bytes; at += 2) {
      const uint16_t value = Value(draw, bf16, temper);
      std::memcpy(pages.data() + one.page + at, &value, 2);
    }
    const auto set = [&](uint64_t at, uint64_t value) {
      std::memcpy(pages.data() + one.page + at, &value, 2);
    };
    // A vector of zeroes of either sign; a value at the limit of FP8, or just beyond.
    const uint64_t sign = below(2) * 0x8000;
    const bool mixed = below(2) == 0;
    if (text.head_dim != 0 && below(3) == 0)
      for (uint64_t at = 0; at < text.head_dim; ++at) set(2 * at, mixed ? below(2) * 0x8000 : sign);
    // A vector with one value, of which BF16 has squares that are nothing.
    if (text.head_dim != 0 && below(8) == 0) {
      const uint64_t vector = below(one.bytes / 2 / text.head_dim) * text.head_dim;
      for (uint64_t at = 0; at < text.head_dim; ++at) set(2 * (vector + at), sign);
      set(2 * (vector + below(text.head_dim)), sign | 0x0d80);
    }
    if (text.head_dim == 0 && below(2) == 0)
      set(below(one.bytes / 2) * 2, sign | ((bf16 ? 0x43e0u : 0x5f00u) + below(2)));
    auto* to = reinterpret_cast<std::byte*>(expected.data() + one.coded);
    const auto* from = reinterpret_cast<const std::byte*>(pages.data() + one.page);
    const uint64_t got = EncodeItem(one.coding, from, one.bytes, to, AlignCoded(one.stored));
    refused[i] = got == 0;
    if (got == 0 && !SavesEnough(one.stored, one.bytes)) {
      // Too short to be kept, which is no concern of a kernel.
      CLAIM(one.stored < 4096, "seed %llu", static_cast<unsigned long long>(seed));
      refused[i] = 2;
    }
    std::memset(to + one.stored, 0, AlignCoded(one.stored) - one.stored);
    items.push_back(cuda::DescribeItem(one.coding, Address(pages.data()) + one.page,
                                       Address(coded.data()) + one.coded, one.bytes, one.stored,
                                       AlignCoded(one.stored), units));
    if (text.head_dim == 0) items.back().unit = fp8_unit;
    if (text.head_dim == 0 && cuda::IsSummable(items.back())) items.back().unit |= cuda::kSummed;
    units += cuda::UnitCount(one.coding, one.bytes, fp8_unit);
  }
  const std::vector<uint8_t> content(pages.data(), pages.data() + pages.size());
  const uint32_t grid = 1 + static_cast<uint32_t>(below(3));
  device::Launch(grid, 256, draw(), [&] {
    text.encode(items.data(), static_cast<uint32_t>(items.size()), units, flags.data());
  });
  CLAIM(std::memcmp(content.data(), pages.data(), pages.size()) == 0, "seed %llu: pages",
        static_cast<unsigned long long>(seed));
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& one = cases[i];
    if (refused[i] == 2) {
      std::memcpy(expected.data() + one.coded, coded.data() + one.coded, one.stored);
      continue;
    }
    CLAIM(flags[i] == refused[i], "seed %llu, item %zu: refused",
          static_cast<unsigned long long>(seed), i);
    if (flags[i] != 0)
      std::memcpy(expected.data() + one.coded, coded.data() + one.coded, one.stored);
  }
  for (size_t i = 0; i < items.size(); ++i) {
    const uint32_t crc = crc32(0, coded.data() + cases[i].coded, cases[i].stored);
    const bool summed = (items[i].unit & cuda::kSummed) != 0;
    CLAIM(flags[sums + i] == (summed ? Crc32FromRemainder(crc, cases[i].stored) : 0),
          "seed %llu, item %zu: sum", static_cast<unsigned long long>(seed), i);
  }
  for (size_t i = 0; i < coded.size(); ++i)
    CLAIM(coded.data()[i] == expected[i], "seed %llu: encoded byte %zu, %u for %u",
          static_cast<unsigned long long>(seed), i, coded.data()[i], expected[i]);

  // Back; some of it damaged first.
  std::vector<uint8_t> decoded(pages.size(), 0x5a);
  std::fill_n(flags.begin(), sums, 0);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& one = cases[i];
    if (below(4) == 0) coded.data()[one.coded + below(one.stored)] = below(2) == 0 ? 0x7f : 0xff;
    const auto* from = reinterpret_cast<const std::byte*>(coded.data() + one.coded);
    auto* to = reinterpret_cast<std::byte*>(decoded.data() + one.page);
    refused[i] = DecodeItem(one.coding, from, one.stored, to, one.bytes) ? 0 : 1;
  }
  std::memset(pages.data(), 0x5a, pages.size());
  device::Launch(grid, 256, draw(), [&] {
    text.decode(items.data(), static_cast<uint32_t>(items.size()), units, flags.data());
  });
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& one = cases[i];
    CLAIM(flags[i] == refused[i], "seed %llu, item %zu: no coding",
          static_cast<unsigned long long>(seed), i);
    if (flags[i] != 0) std::memcpy(decoded.data() + one.page, pages.data() + one.page, one.bytes);
  }
  for (size_t i = 0; i < pages.size(); ++i)
    CLAIM(pages.data()[i] == decoded[i], "seed %llu: decoded byte %zu, %u for %u",
          static_cast<unsigned long long>(seed), i, pages.data()[i], decoded[i]);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const Text& text = kTexts[std::stoul(arguments[1])];
  for (uint64_t seed = 1; seed <= std::stoul(arguments[2]); ++seed) CodeOnce(text, seed);
  std::puts("every claim held");
}
