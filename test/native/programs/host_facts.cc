// What is read from files and errno about the host, as one program: host.test.ts compiles it and
// gives it folders of its own. `memory PROC CGROUP` prints available and free bytes;
// `reason ERRNO KERNEL DISABLED` prints why io_uring was refused.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "memory/host_memory.h"
#include "uring/probe.h"

int main(int count, char** arguments) {
  if (count == 4 && std::strcmp(arguments[1], "memory") == 0) {
    const auto host = orbitkv::ReadHostMemory(arguments[2], arguments[3]);
    std::printf("%" PRIu64 " %" PRIu64 " %d\n", host.available_bytes, host.cgroup_free_bytes,
                host.cgroup_limited ? 1 : 0);
    return 0;
  }
  if (count == 5 && std::strcmp(arguments[1], "reason") == 0) {
    std::puts(orbitkv::uring::ReasonOf(std::atoi(arguments[2]), arguments[3], arguments[4]));
    return 0;
  }
  return 2;
}
