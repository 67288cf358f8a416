#include "device/held_codes.h"

#include <cerrno>

#include "base/whole_number.h"
#include "codec/item_coding.h"

namespace orbitkv {

int DecodeHeld(std::span<const double> triples, const HeldCodes& held, uint64_t slot_bytes,
               std::vector<HeldStep>* steps) {
  if (triples.empty() || triples.size() % kHeldDoubles != 0) return -EINVAL;
  steps->reserve(triples.size() / kHeldDoubles);
  for (size_t at = 0; at < triples.size(); at += kHeldDoubles) {
    uint64_t index, offset, bytes;
    if (!WholeNumber(triples[at], &index) || !WholeNumber(triples[at + 1], &offset) ||
        !WholeNumber(triples[at + 2], &bytes) || index >= held.codes.size())
      return -EINVAL;
    const HeldCodes::Code& code = held.codes[index];
    if (code.bytes == 0 || bytes != code.bytes || offset % kCodedAlign != 0 ||
        offset > slot_bytes || AlignCoded(bytes) > slot_bytes - offset)
      return -EINVAL;
    steps->push_back({code, offset});
  }
  return 0;
}

}  // namespace orbitkv
