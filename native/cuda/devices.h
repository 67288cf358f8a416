#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "memory/mapping.h"

/// CUDA devices through the driver's own API, opened at run time. Everything here works, and says
/// so, on a machine that has none.
namespace orbitkv::cuda {

/// A device as the driver names it.
struct DeviceReport {
  int32_t ordinal;
  std::string uuid;
  std::string name;
  int32_t architecture;
  int32_t multiprocessors;
  uint64_t memory_bytes;
  /// Name of the sticky error that ended the device for this process; empty while it works.
  std::string failure;
};

struct ProbeReport {
  bool available = false;
  std::string reason;
  std::string library;
  int32_t driver_version = 0;
  std::vector<DeviceReport> devices;
  bool compiler_available = false;
  std::string compiler_reason;
  std::string compiler_library;
  int32_t compiler_version = 0;
};

/// Loads both libraries at the first call.
ProbeReport Probe();

struct KernelReport {
  std::string name;
  size_t bytes;
  bool cached;
};

/// Compiles every kernel for an architecture, device or not. Throws SystemError.
std::vector<KernelReport> CompileKernels(int32_t architecture);

/// The device with this ordinal; its primary context is retained from the first call on and for
/// ever. Throws SystemError ENODEV with the reason.
Device& OpenDevice(int32_t ordinal);

/// The 64 bytes of a CUipcMemHandle.
inline constexpr size_t kHandleBytes = 64;

struct MemoryExport {
  std::string uuid;
  std::byte handle[kHandleBytes];
  uint64_t offset;
};

/// As importDeviceMemory() and its siblings in src/binding/memory.ts; all throw SystemError.
std::shared_ptr<Mapping> ImportMemory(const std::string& uuid, const std::byte* handle,
                                      uint64_t offset, uint64_t bytes);
std::shared_ptr<Mapping> AdoptMemory(const std::string& uuid, uint64_t address, uint64_t bytes);
std::shared_ptr<Mapping> AllocateMemory(const std::string& uuid, uint64_t bytes);
MemoryExport ExportMemory(const Mapping& mapping);

/// Copies bytes of a mapping of a device through the driver and waits. Throws SystemError.
void ReadMemory(const Mapping& mapping, uint64_t offset, std::byte* into, uint64_t bytes);
void WriteMemory(const Mapping& mapping, uint64_t offset, const std::byte* from, uint64_t bytes);

}  // namespace orbitkv::cuda
