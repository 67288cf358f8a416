#pragma once

#include <algorithm>
#include <limits>

#include "target.h"

namespace orbitkv::fuzz {

/// xorshift64*: the same numbers everywhere from one seed.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  uint64_t Next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 2685821657736338717ull;
  }
  /// Below `end`, which is not 0.
  size_t Below(size_t end) { return (Next() >> 16) % end; }

 private:
  uint64_t state_;
};

constexpr size_t kInputBytesMax = 4096;

inline void MutateDouble(Input& input, Random& random) {
  static constexpr double kOdd[] = {0.0,
                                    -0.0,
                                    1.0,
                                    -1.0,
                                    0.5,
                                    255.0,
                                    256.0,
                                    4096.0,
                                    2147483647.0,
                                    2147483648.0,
                                    4294967295.0,
                                    4294967296.0,
                                    9007199254740991.0,
                                    9007199254740992.0,
                                    1.8446744073709552e19,
                                    1e308,
                                    std::numeric_limits<double>::infinity(),
                                    std::numeric_limits<double>::quiet_NaN()};
  if (input.size() < sizeof(double)) return;
  std::byte* at = input.data() + random.Below(input.size() / sizeof(double)) * sizeof(double);
  double number;
  std::memcpy(&number, at, sizeof number);
  switch (random.Below(4)) {
    case 0:
      number += random.Below(2) == 0 ? 1 : -1;
      break;
    case 1:
      number *= random.Below(2) == 0 ? 2 : 0.5;
      break;
    case 2:
      number = static_cast<double>(random.Below(size_t{1} << random.Below(54)));
      break;
    default:
      number = kOdd[random.Below(std::size(kOdd))];
  }
  std::memcpy(at, &number, sizeof number);
}

inline void MutateBytes(Input& input, Random& random) {
  static constexpr uint8_t kOdd[] = {0, 1, 2, 3, 4, 0x7f, 0x80, 0xfe, 0xff};
  const size_t size = input.size();
  switch (random.Below(6)) {
    case 0:
      if (size > 0) input[random.Below(size)] ^= static_cast<std::byte>(1 << random.Below(8));
      break;
    case 1:
      if (size > 0)
        input[random.Below(size)] = static_cast<std::byte>(kOdd[random.Below(std::size(kOdd))]);
      break;
    case 2:
      if (size > 0) input[random.Below(size)] = static_cast<std::byte>(random.Next());
      break;
    case 3:
      input.resize(random.Below(size + 1));
      break;
    case 4: {
      if (size == 0 || size >= kInputBytesMax) break;
      const size_t from = random.Below(size);
      const size_t count = std::min({1 + random.Below(16), size - from, kInputBytesMax - size});
      const Input part(input.begin() + from, input.begin() + from + count);
      input.insert(input.begin() + random.Below(size + 1), part.begin(), part.end());
      break;
    }
    default:
      if (size > 0) input.erase(input.begin() + random.Below(size));
  }
}

/// `input` becomes a seed of the target with one to eight changes.
inline void Draw(const Target& target, Random& random, Input& input) {
  input = target.seeds[random.Below(target.seeds.size())];
  for (size_t changes = 1 + random.Below(8); changes > 0; --changes) {
    if (target.doubles && random.Below(8) > 0)
      MutateDouble(input, random);
    else
      MutateBytes(input, random);
  }
}

}  // namespace orbitkv::fuzz
