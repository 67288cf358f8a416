#include "cuda/devices.h"

#include <cerrno>

#include "base/system_error.h"

namespace orbitkv::cuda {

namespace {

constexpr const char* kNotBuilt = "This build has no CUDA device";

[[noreturn]] void Refuse() { throw SystemError(ENODEV, kNotBuilt); }

}  // namespace

ProbeReport Probe() {
  ProbeReport report;
  report.reason = kNotBuilt;
  report.compiler_reason = kNotBuilt;
  return report;
}

Device& OpenDevice(int32_t) { Refuse(); }
std::shared_ptr<Mapping> ImportMemory(const std::string&, const std::byte*, uint64_t, uint64_t) {
  Refuse();
}
std::shared_ptr<Mapping> AdoptMemory(const std::string&, uint64_t, uint64_t) { Refuse(); }
std::shared_ptr<Mapping> AllocateMemory(const std::string&, uint64_t) { Refuse(); }
MemoryExport ExportMemory(const Mapping&) { Refuse(); }
void ReadMemory(const Mapping&, uint64_t, std::byte*, uint64_t) { Refuse(); }
void WriteMemory(const Mapping&, uint64_t, const std::byte*, uint64_t) { Refuse(); }

}  // namespace orbitkv::cuda
