#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "memory/pool.h"
#include "port/io_queue.h"

namespace orbitkv {

/// As SUBMISSION_DOUBLES in src/binding/submissions.ts.
inline constexpr size_t kSubmissionDoubles = 10;
/// A span is a WRITE descriptor of src/shared/layout/descriptors.ts: pool offset and bytes.
inline constexpr size_t kSpanDoubles = 2;
/// As WRITE_SPANS_MAX there.
inline constexpr size_t kWriteSpansMax = 64;

/// One read or write as a lane asked for it, copied out of shared memory and checked.
struct Submission {
  IoRequest request;
  int32_t tag;
  /// The checksum of a read is `crc` over the first `segment_bytes` of every `segment_stride`.
  bool verify;
  uint32_t segment_bytes;
  uint32_t segment_stride;
  uint32_t crc;
};

/// The tag of an entry of `submissions`; -1 when it is none.
int32_t TagOf(const double* entry);

/// Copies an entry of `submissions` once, checks the copy against pool and file and fills
/// `submission` from it. `spans`: those of this entry, empty for a port that takes no writes of
/// spans. What such a write names is copied to `vector`, which has room for kWriteSpansMax and
/// stays as it is until the result was reaped. Returns 0, -EINVAL or -EBADF; then `submission`
/// means nothing.
int CheckSubmission(const double* entry, std::span<const double> spans, const Pool* pool,
                    std::span<iovec> vector, Submission& submission);

}  // namespace orbitkv
