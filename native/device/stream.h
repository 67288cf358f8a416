#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "device/event.h"
#include "device/held_codes.h"
#include "memory/pool.h"
#include "port/completion_sink.h"

namespace orbitkv {

/// As `direction` of copy() in src/binding/streams.ts.
enum class CopyDirection : int32_t { kPoolToPages = 0, kPagesToPool = 1 };

/// What a stream gets from the port that owns it.
struct StreamContext {
  std::shared_ptr<CompletionSink> sink;
  /// Null when the port has no pool: then every job is refused with -EINVAL.
  std::shared_ptr<Pool> pool;
  /// Where checksum jobs write. Memory of a SharedArrayBuffer: valid until the port has drained the
  /// stream.
  std::span<uint32_t> results;
};

/// As `Transfer` in src/binding/streams.ts.
enum class Transfer { kAuto, kDirect, kKernel };
/// As `Gather` and `Descriptors` there.
enum class Gather { kRounds, kWarps };
enum class Descriptors { kMapped, kFed };

/// As in src/binding/streams.ts; 0 stands for the measured default. The host has no use for any.
struct StreamOptions {
  Transfer transfer = Transfer::kAuto;
  uint32_t blocks = 0;
  uint64_t tile_bytes = 0;
  bool timed = false;
  /// Device memory that each direction of the codec may hold.
  uint64_t codec_budget_bytes = uint64_t{64} << 20;
  /// The same of streams of staging slots that may decode what this one encodes.
  std::optional<uint64_t> codec_staging_budget_bytes;
  /// Of that direction alone, in its place.
  std::optional<uint64_t> encode_budget_bytes;
  Gather gather = Gather::kRounds;
  Descriptors descriptors = Descriptors::kMapped;
};

/// As CODEC_WORKSPACE in src/binding/codecs.ts.
struct CodecWorkspace {
  uint64_t reserved_bytes = 0;
  uint64_t held_bytes = 0;
  uint64_t allocations = 0;
};

/// As in src/binding/streams.ts.
struct StreamReport {
  std::string device = "host";
  Transfer transfer = Transfer::kAuto;
  bool kernels = false;
  std::string kernels_reason;
  bool pool_registered = false;
  double pool_register_ms = 0;
  uint64_t direct_jobs = 0;
  uint64_t kernel_jobs = 0;
};

/// One ordered queue of copies, codings and checksums on a device. Called by the port's thread
/// only; its work may run on another thread. Each accepted job posts exactly one completion of kind
/// kStream to the sink, in order. What a job names (pool, mappings, templates) stays mapped until
/// it has ended.
class Stream {
 public:
  /// Jobs that may be accepted and not yet posted; the next one is refused with -EAGAIN. Far above
  /// what a lane's request ring holds, so that it bounds memory and nothing else.
  static constexpr size_t kJobsMax = 4096;

  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  /// Called only when nothing is in flight, or never (quarantine).
  virtual ~Stream() = default;

  /// `descriptors`: whole COPY descriptors; copied before they are checked. Returns 0 or -errno;
  /// after -errno no byte was copied and no completion follows.
  virtual int Copy(int32_t tag, CopyDirection direction, std::span<const double> descriptors) = 0;
  /// `descriptors`: whole CHECKSUM descriptors; result i goes to results[result_base + i]. As Copy.
  virtual int Checksum(int32_t tag, std::span<const double> descriptors, size_t result_base) = 0;
  /// MOVE and MAPPED_CHECKSUM descriptors, as the two above. -EOPNOTSUPP where the device has none.
  virtual int Move(int32_t tag, std::span<const double> descriptors);
  virtual int ChecksumMapped(int32_t tag, std::span<const double> descriptors, size_t result_base);
  /// COPY descriptors of coded items, as encode() and decode() in src/binding/codecs.ts; descriptor
  /// i of an encoding has results 2 * i and 2 * i + 1 from `result_base`. -EOPNOTSUPP where the
  /// device has no such coding.
  virtual int Encode(int32_t tag, std::span<const double> descriptors, size_t result_base);
  virtual int Decode(int32_t tag, std::span<const double> descriptors, size_t result_base);
  /// As Encode; the codings also stay where they were made, until ReleaseCodes(). -E2BIG: they do
  /// not fit there together, or the processor would make some; nothing was done. -EBUSY: something
  /// is held, or is to be; so answers Encode too.
  virtual int EncodeHeld(int32_t tag, std::span<const double> descriptors, size_t result_base);
  /// What the last of them left; null before it has ended well, and when nothing is held.
  virtual std::shared_ptr<const HeldCodes> held_codes() const { return nullptr; }
  /// 0; -EBUSY: it is not made yet, or is read; -EINVAL: nothing is held.
  virtual int ReleaseCodes() { return -EINVAL; }
  /// What is held is being read: this stream may not be closed.
  virtual bool codes_lent() const { return false; }
  /// Zeroes where codings need no memory of a device.
  virtual CodecWorkspace codec_workspace() const { return {}; }
  /// Gives the memory of codings back; the next coding gets its own anew. 0, or -EBUSY while a
  /// coding is in flight or held: then nothing was given back.
  virtual int ReleaseCodecWorkspace() { return 0; }
  virtual StreamReport report() const { return {}; }
  /// Jobs accepted and not yet posted.
  virtual size_t in_flight() const = 0;
  /// Waits until nothing is in flight or MonotonicUs() reaches the deadline; true when nothing is.
  virtual bool Drain(int64_t deadline_us) = 0;

  /// `event` passes when all jobs accepted so far have ended. It must be of this stream's device.
  /// Returns 0 or -errno.
  virtual int Record(Event& event) = 0;
  /// Jobs accepted from now on start after `event`, as last recorded, has passed. Returns 0 or
  /// -errno.
  virtual int Wait(const Event& event) = 0;

  /// For devices that no thread of ours watches; a stream with a thread of its own posts by itself.
  ///
  /// Looks at the device and posts what has ended. Never blocks; bounded work.
  virtual void Poll() {}
  /// When the next completion is worth looking for, as MonotonicUs(): the owner polls until then
  /// instead of sleeping when it is near. Never, when nothing is in flight.
  virtual int64_t NextEndUs() const { return kNever; }
  /// The owner is about to sleep: the end of every job in flight now wakes the sink.
  virtual void WakeAtEnds() {}
  static constexpr int64_t kNever = INT64_MAX;
  /// The next Poll has work of the processor to do.
  static constexpr int64_t kNow = 0;

  /// Jobs that have not started complete with -ECANCELED, so that a drain waits for one job at
  /// most.
  virtual void Cancel() = 0;
  /// When this returns, `results` of the context is not touched any more, whatever is still in
  /// flight.
  virtual void Detach() = 0;
};

inline int Stream::Move(int32_t, std::span<const double>) { return -EOPNOTSUPP; }
inline int Stream::Encode(int32_t, std::span<const double>, size_t) { return -EOPNOTSUPP; }
inline int Stream::EncodeHeld(int32_t, std::span<const double>, size_t) { return -EOPNOTSUPP; }
inline int Stream::Decode(int32_t, std::span<const double>, size_t) { return -EOPNOTSUPP; }
inline int Stream::ChecksumMapped(int32_t, std::span<const double>, size_t) { return -EOPNOTSUPP; }

}  // namespace orbitkv
