#pragma once

#include <cstdint>

namespace orbitkv {

/// Who reports, as COMPLETION in src/binding/completions.ts.
enum class CompletionKind : int32_t {
  kIo = 0,
  kStream = 1,
  kAccepted = 2,
  kFrame = 3,
  kClosed = 4,
  kPeerExited = 5,
};

/// Four int32 words as JavaScript reads them: [tag, result, aux, kind]. `result` is a count or
/// -errno.
struct Completion {
  int32_t tag;
  int32_t result;
  int32_t aux;
  CompletionKind kind;
};
static_assert(sizeof(Completion) == 16);

}  // namespace orbitkv
