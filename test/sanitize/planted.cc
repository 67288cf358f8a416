// Bugs that the sanitizers must find, in the addon's own file and reached the way its functions
// are: through Node. Part of test builds alone. A sanitizer that misses one sees nothing of the
// product either.
#include <climits>
#include <cstddef>
#include <memory>
#include <thread>

#include "addon/node_api_support.h"

namespace orbitkv::addon {

namespace {

constexpr size_t kBytes = 64;
constexpr size_t kLeakBytes = 1 << 20;
constexpr int kRounds = 10'000;

/// What the compiler must take as it comes, lest it remove the bug.
volatile size_t behind_end = kBytes;
volatile int largest = INT_MAX;
volatile int sum = 0;

void ReadBehindTheEnd() {
  const auto memory = std::make_unique<char[]>(kBytes);
  sum = memory[behind_end];
}

void ReadAfterFree() {
  auto memory = std::make_unique<char[]>(kBytes);
  const char* const kept = memory.get();
  memory.reset();
  sum = kept[0];
}

void LoseMemory() {
  auto memory = std::make_unique<char[]>(kLeakBytes);
  memory[0] = 1;
  sum = memory.release()[0];
}

void OverflowAnInteger() { sum = largest + 1; }

void RaceOnAWord() {
  int word = 0;
  const auto add = [&word] {
    for (int i = 0; i < kRounds; ++i) word = word + 1;
  };
  std::thread other(add);
  add();
  other.join();
  sum = word;
}

}  // namespace

napi_value Planted(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  const auto bug = ReadString(env, arguments[0]);
  if (bug == "overflow")
    ReadBehindTheEnd();
  else if (bug == "use-after-free")
    ReadAfterFree();
  else if (bug == "leak")
    LoseMemory();
  else if (bug == "undefined")
    OverflowAnInteger();
  else if (bug == "race")
    RaceOnAWord();
  else
    return ThrowShape(env, "planted", "the name of a bug");
  return Undefined(env);
}

}  // namespace orbitkv::addon
