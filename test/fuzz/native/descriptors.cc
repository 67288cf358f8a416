// Copies, checksums and templates: the lists of src/shared/layout/descriptors.ts.
#include <cerrno>

#include "device/jobs.h"
#include "memory/engine_memory.h"
#include "target.h"

namespace orbitkv::fuzz {

namespace {

constexpr double kMappingBytes = 1 << 16;
constexpr size_t kPoolBytes = size_t{2} << 20;
constexpr size_t kCopyFields = 7;
constexpr size_t kChecksumFields = 4;
constexpr size_t kItemFields = 7;

/// 16 pages of 4096 bytes in two granules: two items of 512 + 512 padded to 1024, one of 100.
const std::vector<double> kGranules = {0, 2, 3};
std::vector<double> Items(int32_t mapping) {
  const double m = mapping;
  return {m, 0,    4096, 16, 0,   512, 512,   //
          m, 512,  4096, 16, 512, 512, 1024,  //
          m, 2048, 4096, 8,  0,   100, 512};
}

struct Granule {
  int items;
  Wide pages;
  Wide extents[2];  // the end of each item's padding
};
constexpr Granule kShapes[] = {{2, 16, {512, 1536}}, {1, 8, {512, 0}}};

struct Memory {
  std::shared_ptr<Pool> pool = Pool::Open(kPoolBytes, PoolPages::kOrdinary);
  int32_t mapping = EngineMemory::Instance().Add(
      std::make_shared<Mapping>(new std::byte[static_cast<size_t>(kMappingBytes)],
                                static_cast<uint64_t>(kMappingBytes), Mapping::Owner::kLender));
  int32_t copy_template = EngineMemory::Instance().DefineTemplate(Items(mapping), kGranules);
};

const Memory& TheMemory() {
  static const Memory memory;
  return memory;
}

bool CopyIsGood(std::span<const double> copy, Wide pool_bytes) {
  if (!AllWhole(copy) || copy[0] != TheMemory().copy_template || copy[1] > 1) return false;
  const Granule& granule = kShapes[static_cast<size_t>(copy[1])];
  const Wide first = WideOf(copy[4]);
  const Wide end = first + WideOf(copy[5]);
  // Stored bytes are those of codings: see codes.cc.
  if (copy[6] != 0 || copy[5] == 0 || end > granule.items) return false;
  // Every run of items ends with its last item.
  return WideOf(copy[2]) < granule.pages &&
         WideOf(copy[3]) + granule.extents[static_cast<size_t>(end) - 1] <= pool_bytes;
}

Breach CheckCopies(std::span<const std::byte> input, bool weak) {
  const std::vector<double> list = DoublesOf(input);
  if (NamesAnother(list, kCopyFields, TheMemory().copy_template)) return std::nullopt;
  std::vector<double> given = list;
  // The weakness: the page is not looked at.
  if (weak)
    for (size_t at = 2; at < given.size(); at += kCopyFields) given[at] = 0;
  const auto& pool = TheMemory().pool;
  bool good = !list.empty() && list.size() % kCopyFields == 0;
  for (size_t at = 0; good && at < list.size(); at += kCopyFields)
    good = CopyIsGood(std::span(list).subspan(at, kCopyFields), static_cast<Wide>(pool->bytes()));
  CopyJob job;
  const int decoded = DecodeCopies(given, pool, kHostDevice, &job);
  if (decoded != 0 && decoded != -EINVAL) return "refused with " + std::to_string(decoded);
  if ((decoded == 0) != good) return good ? "a good list is refused" : "a bad list is accepted";
  if (decoded != 0) return std::nullopt;
  if (job.steps.size() != list.size() / kCopyFields) return "other steps than descriptors";
  const auto mapping = EngineMemory::Instance().FindMapping(TheMemory().mapping);
  for (const CopyStep& step : job.steps)
    for (const TemplateItem& item : step.items) {
      const Wide offset = item.Page(step.page) - mapping->base();
      if (offset < 0 ||
          offset + static_cast<Wide>(item.bytes) > static_cast<Wide>(mapping->bytes()))
        return "a step leaves its mapping";
    }
  return std::nullopt;
}

Breach CheckChecksums(std::span<const std::byte> input, bool weak) {
  const std::vector<double> list = DoublesOf(input);
  std::vector<double> given = list;
  // The weakness: a segment longer than its stride passes as one of that length.
  if (weak)
    for (size_t at = 0; at + 3 < given.size(); at += kChecksumFields)
      if (given[at + 2] > given[at + 3]) given[at + 2] = given[at + 3];
  const auto& pool = TheMemory().pool;
  bool good = !list.empty() && list.size() % kChecksumFields == 0;
  for (size_t at = 0; good && at < list.size(); at += kChecksumFields) {
    const auto sum = std::span(list).subspan(at, kChecksumFields);
    good = AllWhole(sum) && sum[2] > 0 && sum[2] <= sum[3] && sum[1] > 0 &&
           WideOf(sum[1]) % WideOf(sum[3]) == 0 &&
           WideOf(sum[0]) + WideOf(sum[1]) <= static_cast<Wide>(pool->bytes());
  }
  ChecksumJob job;
  const int decoded = DecodeChecksums(given, pool, &job);
  if (decoded != 0 && decoded != -EINVAL) return "refused with " + std::to_string(decoded);
  if ((decoded == 0) != good) return good ? "a good list is refused" : "a bad list is accepted";
  return std::nullopt;
}

bool ItemIsGood(std::span<const double> item) {
  if (!AllWhole(item) || item[0] != TheMemory().mapping || item[3] == 0 || item[5] > item[6])
    return false;
  const Wide last = (WideOf(item[3]) - 1) * WideOf(item[2]) + WideOf(item[1]) + WideOf(item[5]);
  return last <= WideOf(kMappingBytes);
}

/// Of items that name memory of another target this one knows nothing.
bool NamesAnothersMapping(std::span<const double> items) {
  for (size_t at = 0; at < items.size(); at += kItemFields)
    if (IsWhole(items[at]) && items[at] != TheMemory().mapping && items[at] <= INT32_MAX &&
        EngineMemory::Instance().FindMapping(static_cast<int32_t>(items[at])) != nullptr)
      return true;
  return false;
}

/// An input is the items, then the firsts of two granules and their end.
Breach CheckTemplates(std::span<const std::byte> input, bool weak) {
  const std::vector<double> list = DoublesOf(input);
  const size_t granules = std::min<size_t>(list.size(), 3);
  const std::span<const double> items = std::span(list).first(list.size() - granules);
  const std::span<const double> firsts = std::span(list).last(granules);
  if (NamesAnothersMapping(items)) return std::nullopt;
  const auto count = static_cast<double>(items.size() / kItemFields);
  bool good = items.size() % kItemFields == 0 && granules >= 2 && AllWhole(firsts) &&
              firsts.front() == 0 && firsts.back() == count;
  for (size_t g = 1; good && g < granules; ++g) good = firsts[g] >= firsts[g - 1];
  for (size_t at = 0; good && at < items.size(); at += kItemFields)
    good = ItemIsGood(items.subspan(at, kItemFields));
  const std::vector<double> given(items.begin(), items.end());
  // The weakness: fractions are cut.
  return CheckDefined(weak ? Cut(given) : given, firsts, {}, good);
}

}  // namespace

Target Copies(bool weak) {
  const double number = TheMemory().copy_template;
  return {"copies",
          {InputOf({number, 0, 3, 4096, 0, 2, 0}),
           InputOf({number, 1, 7, 0, 0, 1, 0, number, 0, 15, 2095616, 1, 1, 0}),
           InputOf({number, 0, 0, 1024, 0, 1, 0, number, 0, 1, 2048, 0, 2, 0,  //
                    number, 1, 2, 8192, 0, 1, 0})},
          true,
          [weak](std::span<const std::byte> input) { return CheckCopies(input, weak); }};
}

Target Checksums(bool weak) {
  return {"checksums",
          {InputOf({0, 4096, 4096, 4096}), InputOf({4096, 3072, 1000, 1024, 0, 512, 1, 512}),
           InputOf({2096640, 512, 512, 512})},
          true,
          [weak](std::span<const std::byte> input) { return CheckChecksums(input, weak); }};
}

Target Templates(bool weak) {
  std::vector<double> whole = Items(TheMemory().mapping);
  whole.insert(whole.end(), kGranules.begin(), kGranules.end());
  const double mapping = TheMemory().mapping;
  return {"templates",
          {InputOf(whole), InputOf({mapping, 61440, 0, 1, 0, 4096, 4096, 0, 1, 1})},
          true,
          [weak](std::span<const std::byte> input) { return CheckTemplates(input, weak); }};
}

}  // namespace orbitkv::fuzz
