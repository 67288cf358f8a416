#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "memory/copy_template.h"
#include "memory/mapping.h"

namespace orbitkv {

/// The process-wide registry of engine memory: mappings and the copy templates over them, named by
/// small integers that are never used again. One lock holds both, so that a template never outlives
/// the name of a mapping: releasing a mapping retires the templates that name it. Copies that are
/// queued or running hold what they use; memory is unmapped when the last of them has ended,
/// whatever became of the peer.
class EngineMemory {
 public:
  static EngineMemory& Instance();

  int32_t Add(std::shared_ptr<Mapping> mapping);
  std::shared_ptr<Mapping> FindMapping(int32_t number) const;
  void ReleaseMapping(int32_t number);
  /// Releases every name of one mapping.
  void Revoke(const Mapping& mapping);
  /// Mappings still held by anybody, whether or not they were released; one with two names counts
  /// once.
  int32_t MappingsAlive() const;

  /// `items` are whole TEMPLATE_ITEM descriptors, `codings` as many ITEM_CODINGs, or none: then
  /// every item is raw. All lists are already copied out of memory that others can write. Throws
  /// SystemError (EINVAL) that says which item or granule breaks which rule.
  int32_t DefineTemplate(std::span<const double> items, std::span<const double> granule_first_item,
                         std::span<const double> codings = {});
  std::shared_ptr<const CopyTemplate> FindTemplate(int32_t number) const;
  void ReleaseTemplate(int32_t number);

 private:
  using Mappings = std::map<int32_t, std::shared_ptr<Mapping>>;
  using Templates = std::map<int32_t, std::shared_ptr<const CopyTemplate>>;
  struct Retired {
    Mappings mappings;
    Templates templates;
  };
  /// Moves a name and the templates over it to `retired`, which is destroyed after the lock:
  /// unmapping is slow. Nodes move and room in `released_` was made by Add: what is given back
  /// needs no memory.
  void Retire(int32_t number, Retired& retired);
  TemplateItem CheckItem(uint64_t index, std::span<const double> fields) const;

  mutable std::mutex mutex_;
  int32_t next_ = 1;
  Mappings mappings_;
  Templates templates_;
  /// Released, and perhaps still mapped. Always with room for every name in `mappings_`.
  std::vector<std::weak_ptr<Mapping>> released_;
};

}  // namespace orbitkv
