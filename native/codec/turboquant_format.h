#pragma once

// The numbers of TurboQuant, version 1. None may change without another version.

#include <cstddef>
#include <cstdint>

namespace orbitkv::turboquant {

/// Lloyd-Max levels of N(0, 1), symmetric: the positive halves. 0 is a boundary too. A value on a
/// boundary goes to the lower level.
template <uint32_t kBits>
struct Levels;

template <>
struct Levels<3> {
  static constexpr float kBoundaries[] = {0.500549730075f, 1.049957279855f, 1.747927491521f};
  static constexpr float kCentroids[] = {0.245094178944f, 0.756005281206f, 1.343909278505f,
                                         2.151945704537f};
};

template <>
struct Levels<4> {
  static constexpr float kBoundaries[] = {0.258221664671f, 0.522403709011f, 0.799549787510f,
                                          1.099285826917f, 1.437138791685f, 1.843531806277f,
                                          2.400803398763f};
  static constexpr float kCentroids[] = {0.128395029851f, 0.388048299490f, 0.656759118532f,
                                         0.942340456487f, 1.256231197347f, 1.618046386022f,
                                         2.069017226531f, 2.732589570995f};
};

/// The least step between levels of V.
inline constexpr float kScaleMin = 1e-8f;

/// The sign bit of coordinate `i` in the rotation of `seed`, in place: 0 or 2^31.
constexpr uint32_t SignBit(uint32_t seed, uint32_t i) {
  uint32_t hash = seed + i * 0x9e3779b9u;
  hash ^= hash >> 16;
  hash *= 0x85ebca6bu;
  hash ^= hash >> 13;
  hash *= 0xc2b2ae35u;
  hash ^= hash >> 16;
  return hash & 0x80000000u;
}

}  // namespace orbitkv::turboquant
