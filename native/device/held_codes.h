#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace orbitkv {

/// Codings that an encoding left where a device made them. Whoever reads them keeps this object
/// until it has read: while anybody but the stream has it, the stream does not let go of the
/// memory.
struct HeldCodes {
  struct Code {
    uint64_t address = 0;
    /// 0: the item has no coding.
    uint64_t bytes = 0;
  };

  int32_t device = 0;
  /// By the place of its descriptor in the job.
  std::vector<Code> codes;
};

/// Of one coding that goes to a slot: which, where to, and its bytes, in float64.
inline constexpr size_t kHeldDoubles = 3;

/// A coding and its place in a slot.
struct HeldStep {
  HeldCodes::Code code;
  uint64_t slot_offset;
};

/// Reads triples that nobody else can write any more, and checks every one before it returns 0:
/// a coding that is held, with exactly its bytes, at a multiple of kCodedAlign in a slot of
/// `slot_bytes` with the zeroes that end it. Else -EINVAL.
int DecodeHeld(std::span<const double> triples, const HeldCodes& held, uint64_t slot_bytes,
               std::vector<HeldStep>* steps);

}  // namespace orbitkv
