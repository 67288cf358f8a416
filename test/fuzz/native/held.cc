// Codings that a staging write takes from where they are held: HELD_CODE of
// src/shared/layout/descriptors.ts.
#include "device/held_codes.h"
#include "target.h"

namespace orbitkv::fuzz {

namespace {

constexpr size_t kFields = 3;
constexpr Wide kSlotBytes = 64 << 10;

const HeldCodes& TheHeld() {
  static const HeldCodes held{0, {{4096, 1000}, {8192, 0}, {12288, 512}, {16384, 5000}}};
  return held;
}

bool IsGood(std::span<const double> triple) {
  if (!AllWhole(triple) || triple[0] >= static_cast<double>(TheHeld().codes.size())) return false;
  const Wide bytes = WideOf(triple[2]);
  const Wide padded = (bytes + 511) / 512 * 512;
  return bytes > 0 && bytes == TheHeld().codes[static_cast<size_t>(triple[0])].bytes &&
         WideOf(triple[1]) % 512 == 0 && WideOf(triple[1]) + padded <= kSlotBytes;
}

Breach Check(std::span<const std::byte> input, bool weak) {
  const std::vector<double> list = DoublesOf(input);
  std::vector<double> given = list;
  // The weakness: where a coding goes is rounded to what it must be a multiple of.
  if (weak)
    for (size_t at = 1; at < given.size(); at += kFields)
      if (IsWhole(given[at])) given[at] -= std::fmod(given[at], 512);
  bool good = !list.empty() && list.size() % kFields == 0;
  for (size_t at = 0; good && at < list.size(); at += kFields)
    good = IsGood(std::span(list).subspan(at, kFields));
  std::vector<HeldStep> steps;
  const int decoded = DecodeHeld(given, TheHeld(), static_cast<uint64_t>(kSlotBytes), &steps);
  if (decoded != 0 && decoded != -EINVAL) return "refused with " + std::to_string(decoded);
  if ((decoded == 0) != good) return good ? "a good list is refused" : "a bad list is accepted";
  if (decoded != 0) return std::nullopt;
  if (steps.size() != list.size() / kFields) return "other steps than triples";
  for (size_t i = 0; i < steps.size(); ++i) {
    const HeldCodes::Code& code = TheHeld().codes[static_cast<size_t>(list[i * kFields])];
    if (steps[i].code.address != code.address || steps[i].code.bytes != code.bytes)
      return "a step has another coding";
    if (static_cast<Wide>(steps[i].slot_offset) != WideOf(list[i * kFields + 1]))
      return "a step goes elsewhere";
  }
  return std::nullopt;
}

}  // namespace

Target Held(bool weak) {
  return {"held",
          {InputOf({0, 0, 1000}), InputOf({3, 60416, 5000, 2, 512, 512}),
           InputOf({2, 65024, 512, 0, 1024, 1000})},
          true,
          [weak](std::span<const std::byte> input) { return Check(input, weak); }};
}

}  // namespace orbitkv::fuzz
