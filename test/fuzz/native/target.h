#pragma once

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/system_error.h"
#include "memory/engine_memory.h"

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
Target Codes(bool weak);
Target Held(bool weak);
Target Codings(bool weak);
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

inline bool AllWhole(std::span<const double> numbers) {
  return std::all_of(numbers.begin(), numbers.end(), IsWhole);
}

/// Numbers without their fractions.
inline std::vector<double> Cut(std::vector<double> numbers) {
  for (double& number : numbers) number = std::trunc(number);
  return numbers;
}

/// A template is defined if it is good, and refused with EINVAL if it is not.
inline Breach CheckDefined(std::span<const double> items, std::span<const double> granules,
                           std::span<const double> codings, bool good) {
  bool defined = false;
  try {
    const int32_t number = EngineMemory::Instance().DefineTemplate(items, granules, codings);
    defined = true;
    EngineMemory::Instance().ReleaseTemplate(number);
  } catch (const SystemError& error) {
    if (error.error() != EINVAL) return "refused with " + std::to_string(error.error());
  }
  if (defined != good) return good ? "a good template is refused" : "a bad template is defined";
  return std::nullopt;
}

/// Whether a list of descriptors names a template that another target has defined: as good a
/// number as any, of which this target's model knows nothing.
inline bool NamesAnother(std::span<const double> list, size_t fields, int32_t own) {
  for (size_t at = 0; at < list.size(); at += fields)
    if (list[at] != own && IsWhole(list[at]) && list[at] <= 2147483647.0 &&
        EngineMemory::Instance().FindTemplate(static_cast<int32_t>(list[at])) != nullptr)
      return true;
  return false;
}

using Wide = __int128;
inline Wide WideOf(double whole) { return static_cast<Wide>(whole); }

}  // namespace orbitkv::fuzz
