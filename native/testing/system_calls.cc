// What stands between the addon's objects and the system in the test build: the linker sends their
// calls of `symbol` to `__wrap_symbol`, and `__real_symbol` is the system's (ld --wrap; the list
// stands in CMakeLists.txt). The objects are those of the release build.
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <memory>
#include <new>
#include <system_error>
#include <thread>

#include "port/submission.h"
#include "testing/calls.h"
#include "testing/faults.h"
#include "testing/points.h"
#include "uring/abi.h"
#include "uring/ring.h"

using orbitkv::testing::Fails;
using orbitkv::testing::Fault;
using orbitkv::testing::FaultError;
using orbitkv::testing::Point;

namespace {

/// A queue's requests have the number of their slot as user data; what is above is its own.
constexpr uint64_t kRequestEnd = uint64_t{1} << 32;

/// The failed result of a read or write that would have brought `result`.
int FailedIo(int result) {
  const int error = FaultError(Fault::kIo);
  return error == 0 ? result / 2 : -error;
}

bool NoDescriptor() {
  if (!Fails(Fault::kAllocation)) return false;
  errno = EMFILE;
  return true;
}

}  // namespace

extern "C" {

void* __real__Znwm(size_t bytes);
void* __wrap__Znwm(size_t bytes) {
  if (Fails(Fault::kAllocation)) throw std::bad_alloc();
  return __real__Znwm(bytes);
}

void* __real__ZnwmSt11align_val_t(size_t bytes, std::align_val_t align);
void* __wrap__ZnwmSt11align_val_t(size_t bytes, std::align_val_t align) {
  if (Fails(Fault::kAllocation)) throw std::bad_alloc();
  return __real__ZnwmSt11align_val_t(bytes, align);
}

void* __real_mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset);
void* __wrap_mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  if (!Fails(Fault::kAllocation)) return __real_mmap(address, bytes, protection, flags, fd, offset);
  errno = ENOMEM;
  return MAP_FAILED;
}

int __real_memfd_create(const char* name, unsigned flags);
int __wrap_memfd_create(const char* name, unsigned flags) {
  return NoDescriptor() ? -1 : __real_memfd_create(name, flags);
}

int __real_eventfd(unsigned initial, int flags);
int __wrap_eventfd(unsigned initial, int flags) {
  return NoDescriptor() ? -1 : __real_eventfd(initial, flags);
}

int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags) { return NoDescriptor() ? -1 : __real_epoll_create1(flags); }

// std::thread's start.
using State = std::unique_ptr<std::thread::_State>;
void __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread* self, State* state, void (*depend)());
void __wrap__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread* self, State* state, void (*depend)()) {
  if (Fails(Fault::kAllocation)) throw std::system_error(EAGAIN, std::generic_category());
  __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
      self, state, depend);
}

ssize_t __real_pread(int fd, void* memory, size_t bytes, off_t offset);
ssize_t __wrap_pread(int fd, void* memory, size_t bytes, off_t offset) {
  if (!Fails(Fault::kIo)) return __real_pread(fd, memory, bytes, offset);
  const int result = FailedIo(static_cast<int>(bytes));
  if (result >= 0) return __real_pread(fd, memory, static_cast<size_t>(result), offset);
  errno = -result;
  return -1;
}

ssize_t __real_pwrite(int fd, const void* memory, size_t bytes, off_t offset);
ssize_t __wrap_pwrite(int fd, const void* memory, size_t bytes, off_t offset) {
  if (!Fails(Fault::kIo)) return __real_pwrite(fd, memory, bytes, offset);
  const int result = FailedIo(static_cast<int>(bytes));
  if (result >= 0) return __real_pwrite(fd, memory, static_cast<size_t>(result), offset);
  errno = -result;
  return -1;
}

ssize_t __real_pwritev(int fd, const iovec* vector, int count, off_t offset);
ssize_t __wrap_pwritev(int fd, const iovec* vector, int count, off_t offset) {
  if (!Fails(Fault::kIo)) return __real_pwritev(fd, vector, count, offset);
  size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += vector[i].iov_len;
  const int result = FailedIo(static_cast<int>(bytes));
  if (result < 0) {
    errno = -result;
    return -1;
  }
  std::array<iovec, orbitkv::kWriteSpansMax> first;
  auto left = static_cast<size_t>(result);
  int kept = 0;
  for (; left > 0; ++kept) {
    first[kept] = {vector[kept].iov_base, std::min(vector[kept].iov_len, left)};
    left -= first[kept].iov_len;
  }
  return __real_pwritev(fd, first.data(), kept, offset);
}

// uring::Ring::Take: a request's result, as the kernel left it.
bool __real__ZN7orbitkv5uring4Ring4TakeEPNS0_3CqeE(orbitkv::uring::Ring* ring,
                                                   orbitkv::uring::Cqe* out);
bool __wrap__ZN7orbitkv5uring4Ring4TakeEPNS0_3CqeE(orbitkv::uring::Ring* ring,
                                                   orbitkv::uring::Cqe* out) {
  if (!__real__ZN7orbitkv5uring4Ring4TakeEPNS0_3CqeE(ring, out)) return false;
  if (out->user_data < kRequestEnd && Fails(Fault::kIo)) out->result = FailedIo(out->result);
  return true;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long given[6];
  for (long& each : given) each = va_arg(list, long);
  va_end(list);
  if (number == orbitkv::uring::kEnterCall && Fails(Fault::kSubmit)) {
    errno = FaultError(Fault::kSubmit);
    return -1;
  }
  return __real_syscall(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

ssize_t __real_write(int fd, const void* memory, size_t bytes);
ssize_t __wrap_write(int fd, const void* memory, size_t bytes) {
  // The only write inside slotFinish is the hint to the client.
  if (orbitkv::testing::TakeFinishing()) Pass(Point::kNotification);
  return __real_write(fd, memory, bytes);
}

}  // extern "C"
