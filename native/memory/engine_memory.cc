#include "memory/engine_memory.h"

#include <cerrno>
#include <limits>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/system_error.h"
#include "base/whole_number.h"

namespace orbitkv {
namespace {

/// TEMPLATE_ITEM in src/shared/layout/descriptors.ts.
enum Field : size_t {
  kMapping,
  kBase,
  kPageStride,
  kPageCount,
  kGranuleOffset,
  kBytes,
  kPaddedBytes,
  kFields
};

/// More is a mistake: this many items describe 4 GiB of one page in runs of 1 KiB.
constexpr size_t kItemsMax = size_t{1} << 22;

[[noreturn]] void Refuse(const std::string& what, uint64_t index, const std::string& rule) {
  throw SystemError(
      EINVAL, "Cannot define a copy template: " + what + " " + std::to_string(index) + " " + rule);
}

std::vector<uint32_t> CheckGranules(std::span<const double> granule_first_item, size_t items) {
  if (granule_first_item.size() < 2)
    throw SystemError(EINVAL, "Cannot define a copy template: it has no granule");
  std::vector<uint32_t> first(granule_first_item.size());
  for (size_t g = 0; g < first.size(); ++g) {
    uint64_t item;
    if (!WholeNumber(granule_first_item[g], &item) || item > items)
      Refuse("granule", g, "starts at no item");
    first[g] = static_cast<uint32_t>(item);
    if (g > 0 && first[g] < first[g - 1]) Refuse("granule", g, "starts before the one before it");
  }
  if (first.front() != 0) Refuse("granule", 0, "does not start at item 0");
  if (first.back() != items) Refuse("granule", first.size() - 2, "does not end at the last item");
  return first;
}

/// Puts codings that their items can have into `items`.
void TakeCodings(std::span<const double> codings, const std::vector<uint32_t>& granule_first,
                 std::vector<TemplateItem>& items) {
  if (codings.size() != items.size() * kItemCodingDoubles)
    Refuse("coding", codings.size() / kItemCodingDoubles, "has no item, or an item has no coding");
  for (size_t g = 0; g + 1 < granule_first.size(); ++g)
    for (uint64_t i = granule_first[g]; i < granule_first[g + 1]; ++i) {
      TemplateItem& item = items[i];
      const auto coding =
          ReadItemCoding(codings.subspan(i * kItemCodingDoubles, kItemCodingDoubles));
      if (!coding) Refuse("item", i, "has a coding of no known kind");
      if (const char* rule = RuleBroken(*coding, item.bytes)) Refuse("item", i, rule);
      if (!coding->raw() &&
          (granule_first[g + 1] - granule_first[g] != 1 || item.granule_offset_bytes != 0))
        Refuse("item", i, "is coded and not a granule of its own");
      if (coding->format == ItemFormat::kAns &&
          (reinterpret_cast<uintptr_t>(item.base) % kAnsAlign != 0 ||
           item.page_stride_bytes % kAnsAlign != 0))
        Refuse("item", i, "is coded by ANS and not at multiples of 8 bytes");
      item.coding = *coding;
    }
}

}  // namespace

EngineMemory& EngineMemory::Instance() {
  static EngineMemory& memory =
      *std::make_unique<EngineMemory>().release();  // used until the process ends
  return memory;
}

int32_t EngineMemory::Add(std::shared_ptr<Mapping> mapping) {
  const std::lock_guard lock(mutex_);
  const size_t wanted = released_.size() + mappings_.size() + 1;
  if (wanted > released_.capacity()) released_.reserve(2 * wanted);
  mappings_.emplace(next_, std::move(mapping));
  return next_++;
}

std::shared_ptr<Mapping> EngineMemory::FindMapping(int32_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = mappings_.find(number);
  return found == mappings_.end() ? nullptr : found->second;
}

void EngineMemory::ReleaseMapping(int32_t number) {
  Retired retired;
  const std::lock_guard lock(mutex_);
  Retire(number, retired);
}

void EngineMemory::Revoke(const Mapping& mapping) {
  Retired retired;
  const std::lock_guard lock(mutex_);
  for (auto at = mappings_.begin(); at != mappings_.end();) {
    const auto& [number, named] = *at++;
    if (named.get() == &mapping) Retire(number, retired);
  }
}

void EngineMemory::Retire(int32_t number, Retired& retired) {
  const auto found = mappings_.find(number);
  if (found == mappings_.end()) return;
  std::erase_if(released_, [](const auto& mapping) { return mapping.expired(); });
  released_.push_back(found->second);
  retired.mappings.insert(mappings_.extract(found));
  for (auto at = templates_.begin(); at != templates_.end();) {
    const auto here = at++;
    if (here->second->Names(number)) retired.templates.insert(templates_.extract(here));
  }
}

int32_t EngineMemory::MappingsAlive() const {
  const std::lock_guard lock(mutex_);
  std::set<const Mapping*> alive;
  for (const auto& [number, mapping] : mappings_) alive.insert(mapping.get());
  for (const auto& released : released_)
    if (const auto mapping = released.lock()) alive.insert(mapping.get());
  return static_cast<int32_t>(alive.size());
}

TemplateItem EngineMemory::CheckItem(uint64_t index, std::span<const double> fields) const {
  uint64_t whole[kFields];
  for (size_t field = 0; field < kFields; ++field)
    if (!WholeNumber(fields[field], &whole[field]))
      Refuse("item", index, "has a field that is no non-negative integer below 2^53");
  const auto found = whole[kMapping] > std::numeric_limits<int32_t>::max()
                         ? mappings_.end()
                         : mappings_.find(static_cast<int32_t>(whole[kMapping]));
  if (found == mappings_.end()) Refuse("item", index, "names no mapping");
  if (whole[kPageCount] == 0) Refuse("item", index, "has no page");
  if (whole[kBytes] > whole[kPaddedBytes])
    Refuse("item", index, "has more bytes than padded bytes");
  const Mapping& mapping = *found->second;
  uint64_t end;  // of the last page; plain sums of two fields below 2^53 cannot overflow
  if (__builtin_mul_overflow(whole[kPageCount] - 1, whole[kPageStride], &end) ||
      __builtin_add_overflow(end, whole[kBase] + whole[kBytes], &end) || end > mapping.bytes())
    Refuse("item", index,
           "ends behind its mapping of " + std::to_string(mapping.bytes()) + " bytes");
  return {mapping.base() + whole[kBase],
          whole[kPageStride],
          whole[kPageCount],
          whole[kGranuleOffset],
          whole[kBytes],
          whole[kPaddedBytes],
          found->first,
          {}};
}

int32_t EngineMemory::DefineTemplate(std::span<const double> items,
                                     std::span<const double> granule_first_item,
                                     std::span<const double> codings) {
  const size_t count = items.size() / kFields;
  if (items.size() % kFields != 0) Refuse("item", count, "has less than 7 fields");
  if (count > kItemsMax) Refuse("item", kItemsMax, "is one too many");
  const auto granule_first = CheckGranules(granule_first_item, count);

  const std::lock_guard lock(mutex_);
  std::vector<TemplateItem> checked;
  checked.reserve(count);
  std::unordered_map<int32_t, std::shared_ptr<Mapping>> named;
  for (size_t i = 0; i < count; ++i) {
    checked.push_back(CheckItem(i, items.subspan(i * kFields, kFields)));
    named.try_emplace(checked.back().mapping, mappings_.at(checked.back().mapping));
  }
  if (!codings.empty()) TakeCodings(codings, granule_first, checked);
  std::vector<std::shared_ptr<Mapping>> mappings;
  mappings.reserve(named.size());
  for (auto& [number, mapping] : named) mappings.push_back(std::move(mapping));
  for (const TemplateItem& item : checked)
    if (mappings_.at(item.mapping)->device() != mappings.front()->device())
      Refuse("item", static_cast<uint64_t>(&item - checked.data()), "is on another device");
  templates_.emplace(next_, std::make_shared<CopyTemplate>(std::move(checked), granule_first,
                                                           std::move(mappings)));
  return next_++;
}

std::shared_ptr<const CopyTemplate> EngineMemory::FindTemplate(int32_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = templates_.find(number);
  return found == templates_.end() ? nullptr : found->second;
}

void EngineMemory::ReleaseTemplate(int32_t number) {
  std::shared_ptr<const CopyTemplate> retired;  // destroyed after the lock
  const std::lock_guard lock(mutex_);
  const auto found = templates_.find(number);
  if (found == templates_.end()) return;
  retired = std::move(found->second);
  templates_.erase(found);
}

}  // namespace orbitkv
