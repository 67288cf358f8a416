#pragma once

#include <cstdint>

namespace orbitkv {

/// True, with `whole` set, when `value`, a number of JavaScript, is a non-negative integer below
/// 2^53.
inline bool WholeNumber(double value, uint64_t* whole) {
  if (!(value >= 0 && value < 9007199254740992.0)) return false;  // also refuses NaN
  *whole = static_cast<uint64_t>(value);
  return static_cast<double>(*whole) == value;
}

}  // namespace orbitkv
