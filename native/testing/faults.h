#pragma once

#include <cstdint>

/// The k-th use of a resource fails. Only the test build of the addon has this.
namespace orbitkv::testing {

/// In the order of FAULTS in test/failures/injection.ts.
enum class Fault : int32_t {
  /// operator new, mmap, and descriptors of memfd, eventfd, epoll and threads.
  kAllocation,
  /// The result of one read or write, below the port.
  kIo,
  /// One entry of the kernel that submits or waits: io_uring_enter.
  kSubmit,
  /// One call of the addon from JavaScript that may fail by its contract.
  kCall,
  /// One push into a ring between threads; asked for by JavaScript, where the rings are.
  kRingPush,
  kCount,
};

/// Counts a use of `fault` and says whether it fails. Uses by a thread in a Quiet scope are neither
/// counted nor failed.
bool Fails(Fault fault);

/// The errno that failing uses of `fault` report; 0 for a short read or write.
int FaultError(Fault fault);

struct FaultCounts {
  uint64_t seen;
  uint64_t failed;
};

/// From now on the `kth` use fails, and every later one too when `sticky`. Counts begin at zero.
void Arm(Fault fault, uint64_t kth, bool sticky, int error);
void Disarm(Fault fault);
FaultCounts Counts(Fault fault);

/// While it lives, what its thread does is the test build's own.
class Quiet {
 public:
  Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  ~Quiet();
};

}  // namespace orbitkv::testing
