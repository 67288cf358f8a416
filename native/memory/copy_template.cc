#include "memory/copy_template.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace orbitkv {
namespace {

ItemRun Measure(std::span<const TemplateItem> items) {
  ItemRun run{items, std::numeric_limits<uint64_t>::max(), 0, 0};
  for (const TemplateItem& item : items) {
    run.page_count = std::min(run.page_count, item.page_count);
    run.extent_bytes = std::max(run.extent_bytes, item.granule_offset_bytes + item.padded_bytes);
    run.bytes += item.bytes;
  }
  return run;
}

}  // namespace

CopyTemplate::CopyTemplate(std::vector<TemplateItem> items,
                           const std::vector<uint32_t>& granule_first,
                           std::vector<std::shared_ptr<Mapping>> mappings)
    : mappings_(std::move(mappings)),
      items_(std::move(items)),
      device_(mappings_.empty() ? kHostDevice : mappings_.front()->device()) {
  const std::span<const TemplateItem> all(items_);
  granules_.reserve(granule_first.size() - 1);
  for (size_t g = 0; g + 1 < granule_first.size(); ++g)
    granules_.push_back(
        Measure(all.subspan(granule_first[g], granule_first[g + 1] - granule_first[g])));
}

bool CopyTemplate::Run(uint64_t granule, uint64_t first, uint64_t count, ItemRun* run) const {
  if (granule >= granules_.size()) return false;
  const ItemRun& whole = granules_[granule];
  const uint64_t items = whole.items.size();
  if (count == 0 || first > items || count > items - first) return false;
  *run = count == items ? whole : Measure(whole.items.subspan(first, count));
  return true;
}

bool CopyTemplate::Names(int32_t mapping) const {
  return std::any_of(items_.begin(), items_.end(),
                     [mapping](const TemplateItem& item) { return item.mapping == mapping; });
}

}  // namespace orbitkv
