#pragma once

#include <cstddef>

/// Named points where a test holds, or ends, a thread of this process. Only the test build of the
/// addon has them: nothing outside this folder names anything in it, see docs/internals/
/// testing-points.md.
namespace orbitkv::testing {

/// In the order of POINTS in test/support/barriers.ts.
enum class Point : size_t {
  kSsdRead,
  kSsdWrite,
  kWriteError,
  kWriteCompletion,
  kReadCompletion,
  kHostCompletion,
  kCopy,
  kNotification,
  kPublish,
  kPublishAcknowledgement,
  kRestore,
};

/// The thread has come to `point`. While a test pauses it, says so and waits; aborts the process
/// with a report when nobody resumes it in time. Allocates nothing.
void Pass(Point point);

/// A test pauses `point` now.
bool IsPaused(Point point);

/// True once after a test ended this thread at a point: the call it is in must then throw.
bool TakeDeath();

}  // namespace orbitkv::testing
