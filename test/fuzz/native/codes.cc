// Codings of a template's items, and copies that code: ITEM_CODING and COPY of
// src/shared/layout/descriptors.ts.
#include <cerrno>

#include "device/jobs.h"
#include "memory/engine_memory.h"
#include "target.h"

namespace orbitkv::fuzz {

namespace {

constexpr size_t kMappingBytes = size_t{1} << 16;
constexpr size_t kPoolBytes = size_t{1} << 20;
constexpr size_t kCopyFields = 7;
constexpr size_t kCodingFields = 6;
constexpr Wide kPages = 4;

/// A granule each: whole vectors of all kinds, whole values alone, and enough for ANS.
constexpr Wide kItemBytes[] = {1024, 1002, 4096};
constexpr size_t kItems = std::size(kItemBytes);
const std::vector<double> kGranules = {0, 1, 2, 3};
std::vector<double> Items(int32_t mapping) {
  const double m = mapping;
  return {m, 0,    8192, 4, 0, 1024, 1024,  //
          m, 1024, 8192, 4, 0, 1002, 1024,  //
          m, 4096, 8192, 4, 0, 4096, 4096};
}
/// FP8 of bf16; nothing; packed vectors of 3 bits.
const std::vector<double> kCodings = {1, 1, 0, 0, 0,  0,  //
                                      0, 0, 0, 0, 0,  0,  //
                                      2, 2, 3, 3, 64, 4053};

struct Memory {
  std::shared_ptr<Pool> pool = Pool::Open(kPoolBytes, PoolPages::kOrdinary);
  int32_t mapping = EngineMemory::Instance().Add(std::make_shared<Mapping>(
      new std::byte[kMappingBytes], uint64_t{kMappingBytes}, Mapping::Owner::kLender));
  int32_t copy_template =
      EngineMemory::Instance().DefineTemplate(Items(mapping), kGranules, kCodings);
};

const Memory& TheMemory() {
  static const Memory memory;
  return memory;
}

bool CodeIsGood(std::span<const double> copy, CodeDirection direction) {
  if (!AllWhole(copy) || copy[0] != TheMemory().copy_template) return false;
  if (copy[1] != 0 && copy[1] != 2) return false;  // granule 1 is raw
  const Wide stored = WideOf(copy[6]);
  const bool fits = direction == CodeDirection::kEncode
                        ? stored % 512 == 0
                        : stored < kItemBytes[static_cast<size_t>(copy[1])];
  return copy[4] == 0 && copy[5] == 1 && WideOf(copy[2]) < kPages && stored > 0 && fits &&
         WideOf(copy[3]) + stored <= static_cast<Wide>(TheMemory().pool->bytes());
}

Breach CheckDirection(const std::vector<double>& list, CodeDirection direction, bool weak) {
  if (NamesAnother(list, kCopyFields, TheMemory().copy_template)) return std::nullopt;
  std::vector<double> given = list;
  // The weakness: room and length are believed to be a sector.
  if (weak)
    for (size_t at = 6; at < given.size(); at += kCopyFields) given[at] = 512;
  bool good = !list.empty() && list.size() % kCopyFields == 0;
  for (size_t at = 0; good && at < list.size(); at += kCopyFields)
    good = CodeIsGood(std::span(list).subspan(at, kCopyFields), direction);
  const auto& pool = TheMemory().pool;
  CodeJob job;
  const int decoded = DecodeCodes(given, direction, pool, kHostDevice, &job);
  if (decoded != 0 && decoded != -EINVAL) return "refused with " + std::to_string(decoded);
  if ((decoded == 0) != good) return good ? "a good list is refused" : "a bad list is accepted";
  if (decoded != 0) return std::nullopt;
  if (job.steps.size() != list.size() / kCopyFields) return "other steps than descriptors";
  const auto mapping = EngineMemory::Instance().FindMapping(TheMemory().mapping);
  for (const CodeStep& step : job.steps) {
    const Wide page = step.page - mapping->base();
    const Wide coded = step.coded - pool->base();
    if (page < 0 || page + static_cast<Wide>(step.item->bytes) > static_cast<Wide>(kMappingBytes))
      return "a step leaves its mapping";
    if (coded < 0 || coded + static_cast<Wide>(step.stored) > static_cast<Wide>(pool->bytes()))
      return "a step leaves the pool";
  }
  return std::nullopt;
}

bool CodingIsGood(std::span<const double> coding, Wide bytes) {
  const double most[kCodingFields] = {3, 3, 3, 4, 256, 4294967295.0};
  for (size_t field = 0; field < kCodingFields; ++field)
    if (!IsWhole(coding[field]) || coding[field] > most[field]) return false;
  const double format = coding[0], scalar = coding[1], role = coding[2], bits = coding[3];
  const bool narrow = scalar == 1 || scalar == 2;
  if (format == 2) {
    const double values = coding[4];
    const bool known = values == 32 || values == 64 || values == 128 || values == 256;
    return narrow && role != 0 && bits >= 3 && known &&
           bytes % (WideOf(values) * (role == 3 ? 4 : 2)) == 0;
  }
  if (bits != 0 || coding[4] != 0 || coding[5] != 0) return false;
  if (format == 1) return narrow && bytes % 2 == 0;
  return format == 0 || (bytes >= 4096 && (!narrow || bytes % 2 == 0));
}

Breach CheckCodings(std::span<const std::byte> input, bool weak) {
  const std::vector<double> list = DoublesOf(input);
  // None at all: everything is raw.
  bool good = list.empty() || list.size() == kItems * kCodingFields;
  for (size_t item = 0; good && item * kCodingFields < list.size(); ++item)
    good = CodingIsGood(std::span(list).subspan(item * kCodingFields, kCodingFields),
                        kItemBytes[item]);
  // The weakness: fractions are cut.
  return CheckDefined(Items(TheMemory().mapping), kGranules, weak ? Cut(list) : list, good);
}

}  // namespace

Target Codes(bool weak) {
  const double number = TheMemory().copy_template;
  return {"codes",
          {InputOf({number, 0, 3, 4096, 0, 1, 512}),
           InputOf({number, 2, 0, 1048064, 0, 1, 512, number, 0, 1, 0, 0, 1, 512}),
           InputOf({number, 2, 3, 8192, 0, 1, 832})},
          true,
          [weak](std::span<const std::byte> input) -> Breach {
            const std::vector<double> list = DoublesOf(input);
            for (const CodeDirection each : {CodeDirection::kEncode, CodeDirection::kDecode})
              if (Breach found = CheckDirection(list, each, weak)) return found;
            return std::nullopt;
          }};
}

Target Codings(bool weak) {
  return {"codings",
          {InputOf(kCodings), InputOf({2, 1, 1, 4, 128, 42, 1, 2, 0, 0, 0, 0, 3, 1, 0, 0, 0, 0}),
           InputOf({0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0})},
          true,
          [weak](std::span<const std::byte> input) { return CheckCodings(input, weak); }};
}

}  // namespace orbitkv::fuzz
