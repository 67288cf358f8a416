#include "cuda/driver.h"

#include <cerrno>
#include <memory>

#include "base/system_error.h"
#include "shim/library.h"

namespace orbitkv::cuda {
namespace {

using GetProcAddress = Result (*)(const char*, void**, int, uint64_t, int*);
using OldGetProcAddress = Result (*)(const char*, void**, int, uint64_t);

/// Finds a function by name and version; null when the driver has none.
void* Find(const shim::Library& library, const char* name, int version) {
  void* found = nullptr;
  int status = 0;
  if (void* entry = library.Symbol("cuGetProcAddress_v2")) {
    const auto get = reinterpret_cast<GetProcAddress>(entry);
    return get(name, &found, version, 0, &status) == kSuccess && status == 0 ? found : nullptr;
  }
  if (void* entry = library.Symbol("cuGetProcAddress")) {
    const auto get = reinterpret_cast<OldGetProcAddress>(entry);
    return get(name, &found, version, 0) == kSuccess ? found : nullptr;
  }
  return nullptr;
}

/// Fills `driver`; returns why it cannot be used, or nothing.
std::string Load(const shim::Library& library, Driver& driver) {
#define ORBITKV_FIND(name, version, required, arguments)                                \
  driver.name = reinterpret_cast<decltype(driver.name)>(Find(library, #name, version)); \
  if (required && driver.name == nullptr)                                               \
    return library.path + " has no " #name " of version " #version                      \
                          ": a driver for CUDA 11.7 or later is needed";
  ORBITKV_DRIVER_FUNCTIONS(ORBITKV_FIND)
#undef ORBITKV_FIND
  driver.library = library.path;
  if (const Result result = driver.cuInit(0); result != kSuccess)
    return "cuInit answered " + driver.Name(result);
  driver.cuDriverGetVersion(&driver.version);
  int devices = 0;
  if (const Result result = driver.cuDeviceGetCount(&devices); result != kSuccess)
    return "cuDeviceGetCount answered " + driver.Name(result);
  return devices == 0 ? "The CUDA driver shows no device to this process" : "";
}

DriverState* MakeState() {
  auto state = std::make_unique<DriverState>();
  const shim::Library library = shim::OpenLibrary(kDriverOverride, {"libcuda.so.1"});
  if (library.handle == nullptr) {
    state->reason = "Cannot open the CUDA driver: " + library.reason;
    return state.release();
  }
  auto driver = std::make_unique<Driver>();
  state->reason = Load(library, *driver);
  if (state->reason.empty()) state->driver = driver.release();
  return state.release();
}

}  // namespace

std::string Driver::Name(Result result) const {
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != kSuccess || name == nullptr) name = "CUDA_ERROR";
  return std::string(name) + " (" + std::to_string(result) + ")";
}

void Driver::Require(Result result, const std::string& action) const {
  if (result == kSuccess) return;
  const int error = result == kOutOfMemory    ? ENOMEM
                    : result == kInvalidValue ? EINVAL
                    : IsSticky(result)        ? ENODEV
                                              : EIO;
  throw SystemError(error, action + ": the CUDA driver answered " + Name(result));
}

bool IsSticky(Result result) {
  switch (result) {
    case 4:    // deinitialised
    case 46:   // device unavailable
    case 214:  // ECC
    case 220:  // NVLink
    case 226:  // contained exception
    case 700:  // illegal address
    case 702:  // launch timeout
    case 709:  // context destroyed
    case 710:  // assertion
    case 714:  // hardware stack
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // address space
    case 718:  // program counter
    case 719:  // launch failed
    case 721:  // tensor memory leak
    case 806:  // MPS: connection lost
    case 810:  // MPS: client ended
    case 911:  // external device
    case 999:  // unknown
      return true;
    default:
      return false;
  }
}

const DriverState& TheDriver() {
  static const DriverState& state = *MakeState();  // used until the process ends
  return state;
}

const Driver& RequireDriver() {
  const DriverState& state = TheDriver();
  if (state.driver == nullptr) throw SystemError(ENODEV, state.reason);
  return *state.driver;
}

}  // namespace orbitkv::cuda
