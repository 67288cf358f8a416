#include "testing/port_watch.h"

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "port/port.h"
#include "testing/points.h"

namespace orbitkv::testing {
namespace {

constexpr size_t kOpAndFlags = 0;
constexpr size_t kTag = 1;

/// A test that pauses at write errors wants one: the write is made to fail.
void WriteCompleted(Completion& completion) {
  if (completion.result >= 0 && IsPaused(Point::kWriteError)) completion.result = -EIO;
  Pass(completion.result < 0 ? Point::kWriteError : Point::kWriteCompletion);
}

}  // namespace

void PortWatch::Submitting(int32_t count) {
  const size_t fits = submissions.size() / kSubmissionDoubles;
  for (size_t i = 0; i < std::min(fits, static_cast<size_t>(std::max(count, 0))); ++i) {
    const auto submission = submissions.subspan(i * kSubmissionDoubles, kSubmissionDoubles);
    const bool write = std::fmod(submission[kOpAndFlags], 256) != 0;
    writes[static_cast<int32_t>(submission[kTag])] = write;
    Pass(write ? Point::kSsdWrite : Point::kSsdRead);
  }
}

void PortWatch::Completed(int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    Completion& completion = completions[static_cast<size_t>(i)];
    if (completion.kind == CompletionKind::kStream) Pass(Point::kHostCompletion);
    if (completion.kind != CompletionKind::kIo) continue;
    const auto found = writes.find(completion.tag);
    if (found == writes.end()) continue;
    const bool write = found->second;
    writes.erase(found);
    if (write)
      WriteCompleted(completion);
    else
      Pass(Point::kReadCompletion);
  }
}

}  // namespace orbitkv::testing
