// Every native parser under mutations of what it expects.
//
//   fuzz FOLDER SEED SECONDS RECORDS TARGET|all [weak]   until the time or, when it is not 0, that
//                                                        many records of each target are over
//   fuzz FOLDER replay TARGET HEX [weak]
//
// One line for each target: `name records` and, after a breach, the input as hex and the breach. A
// crash is reported by the sanitizer, after it the target and the input.
#include <sanitizer/common_interface_defs.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "mutate.h"

extern "C" const char* __asan_default_options() { return "handle_abort=1:detect_leaks=1"; }

namespace {

using namespace orbitkv::fuzz;
using Clock = std::chrono::steady_clock;

/// Each target in turn has this long.
constexpr auto kTurn = std::chrono::milliseconds(20);
constexpr uint64_t kRecordsPerLook = 64;

const Target* running = nullptr;
Input input;

std::string Hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::byte byte : bytes) {
    hex += kDigits[std::to_integer<int>(byte) >> 4];
    hex += kDigits[std::to_integer<int>(byte) & 15];
  }
  return hex.empty() ? "-" : hex;
}

Input OfHex(const std::string& hex) {
  Input bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

void SayWhatRan() {
  if (running == nullptr) return;
  std::printf("%s crash %s the sanitizer ended it\n", running->name.c_str(), Hex(input).c_str());
  std::fflush(stdout);
}

std::vector<Target> TargetsOf(const std::string& name, bool weak, const std::string& folder) {
  std::vector<Target> targets = {
      Frames(weak),       Copies(weak),    Codes(weak),     Held(weak),
      Codings(weak),      Checksums(weak), Templates(weak), Submissions(weak, folder),
      FinishedSlots(weak)};
  if (name != "all") std::erase_if(targets, [&](const Target& each) { return each.name != name; });
  return targets;
}

struct Progress {
  uint64_t records = 0;
  std::string found;
};

/// Runs one target until `until` or `records_max`.
void Turn(const Target& target, Random& random, Progress& progress, Clock::time_point until,
          uint64_t records_max) {
  running = &target;
  while (progress.found.empty() && progress.records < records_max && Clock::now() < until) {
    for (uint64_t i = 0; i < kRecordsPerLook && progress.records < records_max; ++i) {
      Draw(target, random, input);
      ++progress.records;
      const Breach breach = target.run(input);
      if (!breach) continue;
      progress.found = Hex(input) + " " + *breach;
      break;
    }
  }
  running = nullptr;
}

int Replay(const std::vector<Target>& targets, const std::string& hex) {
  input = OfHex(hex);
  running = &targets.front();
  const Breach breach = targets.front().run(input);
  running = nullptr;
  std::printf("%s\n", breach ? breach->c_str() : "every rule holds");
  return breach ? 1 : 0;
}

int Run(const std::vector<Target>& targets, uint64_t seed, double seconds, uint64_t records_max) {
  std::vector<Random> random;
  for (size_t i = 0; i < targets.size(); ++i) random.emplace_back(seed * 1000 + i + 1);
  std::vector<Progress> progress(targets.size());
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  const uint64_t most = records_max == 0 ? ~uint64_t{0} : records_max;
  for (bool working = true; working && Clock::now() < end;) {
    working = false;
    for (size_t i = 0; i < targets.size(); ++i) {
      Turn(targets[i], random[i], progress[i], std::min(end, Clock::now() + kTurn), most);
      working = working || (progress[i].found.empty() && progress[i].records < most);
    }
  }
  bool found = false;
  for (size_t i = 0; i < targets.size(); ++i) {
    found = found || !progress[i].found.empty();
    std::printf("%s %llu %s\n", targets[i].name.c_str(),
                static_cast<unsigned long long>(progress[i].records), progress[i].found.c_str());
  }
  return found ? 1 : 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() < 4) return 2;
  const bool weak = words.back() == "weak";
  __sanitizer_set_death_callback(SayWhatRan);
  if (words[1] == "replay") {
    const auto targets = TargetsOf(words[2], weak, words[0]);
    return targets.empty() ? 2 : Replay(targets, words[3]);
  }
  if (words.size() < 5) return 2;
  const auto targets = TargetsOf(words[4], weak, words[0]);
  if (targets.empty()) return 2;
  return Run(targets, std::stoull(words[1]), std::stod(words[2]), std::stoull(words[3]));
}
