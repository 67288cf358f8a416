#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "files/shard_file.h"
#include "memory/pool.h"

namespace orbitkv {

/// One checked read or write. Who pushes it keeps the file, the memory and the vector until its
/// result was reaped.
struct IoRequest {
  bool write;
  int32_t file_number;
  std::shared_ptr<ShardFile> file;
  uint64_t offset;
  /// Null when there is a vector.
  std::byte* memory;
  uint32_t bytes;
  /// Of a write of several spans: their memory in order, `bytes` in all. Else empty.
  std::span<const iovec> vector;
};

/// A count or -errno of the request that was pushed with this slot.
struct IoResult {
  uint32_t slot;
  int32_t result;
};

struct IoQueueOptions {
  /// Requests in flight at most; slots are below it.
  uint32_t depth;
  /// Readable when the owner must wake.
  int wake_fd;
  std::shared_ptr<Pool> pool;
  /// Register the pool and files with the kernel where it allows.
  bool enlist;
};

struct IoQueueReport {
  const char* io;
  uint32_t setup_flags;
  bool registered_buffers;
  bool registered_files;
};

/// Carries reads and writes to the kernel and is the one place where a port's owner sleeps. All
/// calls come from the thread that made it. Two implementations: UringQueue and PosixQueue, with
/// one contract.
class IoQueue {
 public:
  IoQueue() = default;
  IoQueue(const IoQueue&) = delete;
  IoQueue& operator=(const IoQueue&) = delete;
  /// With requests in flight this may only be called at the end of the process: quarantine such a
  /// queue instead.
  virtual ~IoQueue() = default;

  virtual IoQueueReport report() const = 0;
  /// Also sleep on this descriptor (an epoll set of sockets).
  virtual void Watch(int fd) = 0;
  /// Adds a request to what the next Advance submits.
  virtual void Push(uint32_t slot, const IoRequest& request) = 0;
  /// Submits everything pushed; then, with `wait_us` > 0, sleeps until `events` results are there,
  /// a watched descriptor is readable or the time is over. Returns 0 or -errno (what was not
  /// submitted stays pushed).
  virtual int Advance(uint32_t events, int64_t wait_us) = 0;
  /// Moves results out; returns how many. Does not enter the kernel.
  virtual size_t Reap(std::span<IoResult> out) = 0;
  /// True once after the wake descriptor was seen readable.
  virtual bool TakeWoken() = 0;
  /// Asks the kernel to give up what it can; every request still gets its result.
  virtual void CancelAll() = 0;
};

}  // namespace orbitkv
