#include "memory/host_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

namespace orbitkv {

namespace {

constexpr uint64_t kUnlimited = UINT64_MAX;

std::optional<uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  uint64_t number;
  if (file >> number) return number;
  return std::nullopt;  // missing, or "max"
}

uint64_t ReadAvailable(const std::string& proc) {
  std::ifstream file(proc + "/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    uint64_t kib;
    std::istringstream fields(line.substr(line.find(':') + 1));
    if (line.rfind("MemAvailable:", 0) == 0 && fields >> kib) return kib * 1024;
  }
  return kUnlimited;
}

/// "reclaimable" file cache counts as free: the kernel drops it before it kills.
uint64_t ReadInactiveFile(const std::string& folder, const std::string& name) {
  std::ifstream file(folder + "/memory.stat");
  std::string key;
  uint64_t value;
  while (file >> key >> value)
    if (key == name) return value;
  return 0;
}

struct Files {
  const char* limit;
  const char* usage;
  const char* inactive;
};

/// The least room of the groups from `path` up to the mount's root.
uint64_t LeastRoom(const std::string& mount, std::string path, const Files& files) {
  uint64_t room = kUnlimited;
  while (true) {
    const std::string folder = mount + path;
    const auto limit = ReadNumber(folder + "/" + files.limit);
    const auto usage = ReadNumber(folder + "/" + files.usage);
    // v1 writes "no limit" as the largest multiple of a page below 2^63.
    if (limit && usage && *limit < (uint64_t{1} << 62)) {
      const uint64_t used = *usage - std::min(*usage, ReadInactiveFile(folder, files.inactive));
      room = std::min(room, *limit - std::min(*limit, used));
    }
    if (path.empty() || path == "/") return room;
    path.erase(path.rfind('/'));
  }
}

}  // namespace

HostMemory ReadHostMemory(const std::string& proc, const std::string& cgroup) {
  HostMemory host{ReadAvailable(proc), kUnlimited, false};
  std::ifstream file(proc + "/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    uint64_t room = kUnlimited;
    if (controllers == ",,")
      room = LeastRoom(cgroup, path, {"memory.max", "memory.current", "inactive_file"});
    else if (controllers.find(",memory,") != std::string::npos)
      room = LeastRoom(cgroup + "/memory", path,
                       {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"});
    host.cgroup_free_bytes = std::min(host.cgroup_free_bytes, room);
  }
  host.cgroup_limited = host.cgroup_free_bytes != kUnlimited;
  return host;
}

HostMemory ReadHostMemory() { return ReadHostMemory("/proc", "/sys/fs/cgroup"); }

}  // namespace orbitkv
