#pragma once

#include <cstdint>
#include <memory>

#include "memory/mapping.h"

namespace orbitkv {

/// A finished line as the client reads it.
struct SlotLine {
  uint64_t op_id;
  uint32_t error_code;
  uint32_t first_failed;
  uint64_t bytes;
  uint64_t admit_ns;
  uint64_t done_ns;
  uint64_t layers;
};

/// The client's half of a SlotTable (its layout is drawn in slot_table.h): maps the client's words
/// read-write and the Manager's words read-only. Each side trusts the other's words for nothing but
/// their values.
class SlotLines {
 public:
  /// The descriptors stay the caller's. Throws SystemError; EPERM: not size-sealed memfds, EINVAL:
  /// they hold fewer lines.
  SlotLines(int client_fd, int manager_fd, uint32_t slots);
  SlotLines(const SlotLines&) = delete;
  SlotLines& operator=(const SlotLines&) = delete;

  uint32_t slots() const { return slots_; }

  /// Op id and fence, then the word. Requires slot < slots() and generation < kGenerationEnd, as
  /// all that follow.
  void Submit(uint32_t slot, uint64_t generation, uint64_t op_id, uint64_t fence);
  void RaiseFence(uint32_t slot, uint64_t fence);
  void Free(uint32_t slot, uint64_t generation);

  /// True for a word of an operation that has ended.
  static bool Terminal(uint64_t word);

  /// The Manager's word. A terminal one only together with the payload of the same generation, in
  /// `out`; false: they did not agree within a few reads.
  bool Poll(uint32_t slot, uint64_t* out_word, SlotLine* out) const;

 private:
  uint32_t slots_;
  std::shared_ptr<Mapping> client_;
  std::shared_ptr<Mapping> manager_;
};

}  // namespace orbitkv
