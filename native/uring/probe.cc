#include "uring/probe.h"

#include <sys/resource.h>
#include <sys/utsname.h>

#include <cerrno>
#include <cstdio>
#include <fstream>

#include "base/system_error.h"
#include "uring/ring.h"

namespace orbitkv::uring {

namespace {

constexpr uint32_t kProbeEntries = 8;

bool IsBefore(const std::string& kernel, int major, int minor) {
  int found_major = 0;
  int found_minor = 0;
  if (std::sscanf(kernel.c_str(), "%d.%d", &found_major, &found_minor) != 2) return false;
  return found_major != major ? found_major < major : found_minor < minor;
}

}  // namespace

const char* ReasonOf(int error, const std::string& kernel, const std::string& disabled) {
  switch (error) {
    case 0:
      return "ok";
    case EPERM:
    case EACCES:
      // The switch came with 6.6; where it is absent or open only a filter or a security module can
      // refuse.
      return disabled.empty() || disabled == "0" ? "seccomp" : "sysctl";
    case ENOSYS:
      // Some filters answer as if the call did not exist.
      return IsBefore(kernel, 5, 11) ? "kernel" : "seccomp";
    case EINVAL:
      return "kernel";
    case ENOMEM:
      return "memlock";
    case EMFILE:
    case ENFILE:
      return "fdlimit";
    default:
      return "unknown";
  }
}

ProbeReport Probe() {
  ProbeReport report{};
  utsname names{};
  if (uname(&names) == 0) report.kernel = names.release;
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  report.memlock_bytes = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
  try {
    const Ring ring(kProbeEntries);
    report.setup_flags = ring.setup_flags();
    report.available = true;
  } catch (const SystemError& error) {
    report.error = error.error();
  }
  std::string disabled;
  std::ifstream("/proc/sys/kernel/io_uring_disabled") >> disabled;
  report.reason = ReasonOf(report.error, report.kernel, disabled);
  return report;
}

}  // namespace orbitkv::uring
