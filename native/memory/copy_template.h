#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "codec/item_coding.h"
#include "memory/mapping.h"

namespace orbitkv {

/// As TEMPLATE_ITEM in src/shared/layout/descriptors.ts, after checking.
struct TemplateItem {
  std::byte* base;  // of page 0
  uint64_t page_stride_bytes;
  uint64_t page_count;
  uint64_t granule_offset_bytes;
  uint64_t bytes;
  uint64_t padded_bytes;
  int32_t mapping;
  /// One that is not raw is the only item of its granule, at its start.
  ItemCoding coding = {};

  std::byte* Page(uint64_t page) const { return base + page * page_stride_bytes; }
};

/// What a run of items of one granule allows and needs.
struct ItemRun {
  std::span<const TemplateItem> items;
  uint64_t page_count;    // the least of its items
  uint64_t extent_bytes;  // the end of its last padding, from the start of the granule
  uint64_t bytes;         // moved by one copy, without padding
};

/// Says, for every granule of one (rank, group), which engine bytes belong to it:
///
///   granule g:   item | pad | item | pad | ...        item i of page p lies at base + p *
///   page_stride
///
/// Every item was held against the real size of its mapping for all its pages, so a copy has only
/// to check its page number and its place in the pool. All its mappings are of one device. A
/// template never changes, and keeps its mappings mapped.
class CopyTemplate {
 public:
  /// `granule_first` has one entry more than there are granules; both are as checked by
  /// EngineMemory.
  CopyTemplate(std::vector<TemplateItem> items, const std::vector<uint32_t>& granule_first,
               std::vector<std::shared_ptr<Mapping>> mappings);

  /// Items `first` to `first + count - 1` of a granule; false when there are none such.
  bool Run(uint64_t granule, uint64_t first, uint64_t count, ItemRun* run) const;

  bool Names(int32_t mapping) const;
  int32_t device() const { return device_; }

 private:
  std::vector<std::shared_ptr<Mapping>> mappings_;
  std::vector<TemplateItem> items_;
  std::vector<ItemRun> granules_;
  int32_t device_;
};

}  // namespace orbitkv
