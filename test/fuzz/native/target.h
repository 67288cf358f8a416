#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// One parser under fire: what is fed to it, and the rule that must hold for every input. A rule
/// compares the parser with a model that is written apart from it, in 128-bit arithmetic where the
/// parser guards against overflow.
namespace orbitkv::fuzz {

using Input = std::vector<std::byte>;
/// What was wrong, or nothing.
using Breach = std::optional<std::string>;

struct Target {
  std::string name;
  /// Inputs that mean something; mutations start from them.
  std::vector<Input> seeds;
  /// Whether an input is a list of float64, which mutations then respect.
  bool doubles;
  std::function<Breach(std::span<const std::byte>)> run;
};

/// Each target twice: as it is, and with a weakness in front of the parser that the loop must find.
Target Frames(bool weak);
Target Copies(bool weak);
Target Checksums(bool weak);
Target Templates(bool weak);
Target Submissions(bool weak, const std::string& folder);
Target FinishedSlots(bool weak);

inline Input InputOf(const std::vector<double>& numbers) {
  Input bytes(numbers.size() * sizeof(double));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

inline std::vector<double> DoublesOf(std::span<const std::byte> input) {
  std::vector<double> numbers(input.size() / sizeof(double));
  if (!numbers.empty()) std::memcpy(numbers.data(), input.data(), numbers.size() * sizeof(double));
  return numbers;
}

/// The model of a whole number of JavaScript: through rounding and not through a cast.
inline bool IsWhole(double number) {
  return std::isfinite(number) && std::floor(number) == number && number >= 0 &&
         number <= 9007199254740991.0;
}

using Wide = __int128;
inline Wide WideOf(double whole) { return static_cast<Wide>(whole); }

}  // namespace orbitkv::fuzz
