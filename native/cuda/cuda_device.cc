#include "cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/system_error.h"
#include "cuda/compiler.h"
#include "cuda/cuda_stream.h"

namespace orbitkv::cuda {
namespace {

/// What the registration of a pool is found by: one serves every device.
constexpr char kRegistration = 0;

std::string FormatUuid(const unsigned char* bytes) {
  std::string text = "GPU-";
  for (size_t i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += "0123456789abcdef"[bytes[i] >> 4];
    text += "0123456789abcdef"[bytes[i] & 15];
  }
  return text;
}

std::string NormalUuid(std::string uuid) {
  std::transform(uuid.begin(), uuid.end(), uuid.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return uuid.starts_with("gpu-") ? "GPU-" + uuid.substr(4) : "GPU-" + uuid;
}

/// Every device that the driver shows; none without a driver.
const std::vector<std::unique_ptr<CudaDevice>>& AllDevices() {
  static const auto& devices = *[] {
    auto made = std::make_unique<std::vector<std::unique_ptr<CudaDevice>>>();
    if (const Driver* driver = TheDriver().driver) {
      int count = 0;
      driver->Require(driver->cuDeviceGetCount(&count), "Cannot count CUDA devices");
      for (int32_t ordinal = 0; ordinal < count; ++ordinal)
        made->push_back(std::make_unique<CudaDevice>(*driver, ordinal));
    }
    return made.release();  // used until the process ends
  }();
  return devices;
}

}  // namespace

PoolRegistration::PoolRegistration(const Driver& with, Context current, Pool& pool)
    : driver(&with), context(current), base(pool.base()) {
  const int64_t start_us = MonotonicUs();
  const Result result = driver->cuMemHostRegister(base, pool.bytes(), kHostPortable | kHostMapped);
  ours = result == kSuccess;
  if (result != kHostAlreadyRegistered)
    driver->Require(result, "Cannot register a pool of " + std::to_string(pool.bytes()) + " bytes");
  milliseconds = static_cast<double>(MonotonicUs() - start_us) / 1000.0;
}

PoolRegistration::~PoolRegistration() {
  // In a dead context this fails, and the process is about to end.
  if (ours && driver->cuCtxSetCurrent(context) == kSuccess) driver->cuMemHostUnregister(base);
}

CudaDevice::CudaDevice(const Driver& driver, int32_t ordinal)
    : driver_(driver), ordinal_(ordinal), code_kernels_(driver) {
  std::array<unsigned char, 16> uuid{};
  int major = 0, minor = 0;
  // One that does not say what it is keeps its ordinal, and is lost from the first.
  const auto known = [this](Result result) {
    if (result != kSuccess) Fail(result);
    return result == kSuccess;
  };
  if (known(driver_.cuDeviceGet(&number_, ordinal)) &&
      known(driver_.cuDeviceGetUuid(uuid.data(), number_)) &&
      known(driver_.cuDeviceGetAttribute(&major, kAttributeMajor, number_)) &&
      known(driver_.cuDeviceGetAttribute(&minor, kAttributeMinor, number_)))
    known(driver_.cuDeviceGetAttribute(&multiprocessors_, kAttributeMultiprocessors, number_));
  uuid_ = FormatUuid(uuid.data());
  architecture_ = major * 10 + minor;
}

DeviceReport CudaDevice::Report() const {
  std::array<char, 256> name{};
  size_t bytes = 0;
  driver_.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, number_);
  driver_.cuDeviceTotalMem(&bytes, number_);
  const Result failure = failure_.load(std::memory_order_acquire);
  return {ordinal_,
          uuid_,
          name.data(),
          architecture_,
          multiprocessors_,
          bytes,
          failure == kSuccess ? "" : driver_.Name(failure)};
}

void CudaDevice::Enter() {
  if (const Result failure = failure_.load(std::memory_order_acquire); failure != kSuccess)
    throw SystemError(ENODEV, "CUDA device " + std::to_string(ordinal_) +
                                  " is lost to this process since " + driver_.Name(failure) +
                                  ": start another");
  {
    const std::lock_guard lock(mutex_);
    if (context_ == nullptr) {
      const Result result = driver_.cuDevicePrimaryCtxRetain(&context_, number_);
      if (result != kSuccess) context_ = nullptr;
      driver_.Require(result, "Cannot make the context of CUDA device " + std::to_string(ordinal_));
    }
  }
  driver_.Require(MakeCurrent(), "Cannot enter CUDA device " + std::to_string(ordinal_));
}

std::shared_ptr<PoolRegistration> CudaDevice::Register(Pool& pool) {
  static std::mutex& one_at_a_time = *std::make_unique<std::mutex>().release();
  const std::lock_guard lock(one_at_a_time);
  if (auto found = pool.Attached(&kRegistration))
    return std::static_pointer_cast<PoolRegistration>(found);
  auto registration = std::make_shared<PoolRegistration>(driver_, context_, pool);
  pool.Attach(&kRegistration, registration);
  return registration;
}

const Kernels* CudaDevice::LoadKernels(std::string* reason) {
  const std::lock_guard lock(mutex_);
  if (!kernels_tried_) {
    TheCompiler(driver_.version);
    try {
      kernels_.emplace(driver_, architecture_);
    } catch (const SystemError& error) {
      kernels_reason_ = error.what();
    }
    // Not when this very process had no memory: then it is tried again.
    kernels_tried_ = true;
  }
  *reason = kernels_reason_;
  return kernels_ ? &*kernels_ : nullptr;
}

std::shared_ptr<const void> CudaDevice::Allocate(uint64_t bytes, DeviceAddress* address) {
  driver_.Require(driver_.cuMemAlloc(address, bytes), "Cannot allocate " + std::to_string(bytes) +
                                                          " bytes on CUDA device " +
                                                          std::to_string(ordinal_));
  // NOLINTNEXTLINE: an address of the device, never followed here.
  return std::shared_ptr<const void>(reinterpret_cast<const void*>(*address),
                                     [this](const void* memory) {
                                       if (MakeCurrent() == kSuccess)
                                         driver_.cuMemFree(reinterpret_cast<DeviceAddress>(memory));
                                     });
}

bool CudaDevice::Note(Result result) {
  if (!IsSticky(result)) return false;
  Fail(result);
  return true;
}

void CudaDevice::Fail(Result result) {
  Result none = kSuccess;
  failure_.compare_exchange_strong(none, result, std::memory_order_acq_rel);
}

std::unique_ptr<CudaStream> CudaDevice::OpenCudaStream(StreamContext context,
                                                       const StreamOptions& options) {
  Enter();
  return std::make_unique<CudaStream>(*this, std::move(context), options);
}

std::unique_ptr<Stream> CudaDevice::OpenStream(StreamContext context,
                                               const StreamOptions& options) {
  return OpenCudaStream(std::move(context), options);
}

std::unique_ptr<Event> CudaDevice::CreateEvent() { return std::make_unique<CudaEvent>(); }

CudaDevice& DeviceAt(int32_t ordinal) {
  RequireDriver();
  const auto& devices = AllDevices();
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= devices.size())
    throw SystemError(ENODEV, "There is no CUDA device " + std::to_string(ordinal) +
                                  ": the driver shows " + std::to_string(devices.size()));
  return *devices[static_cast<size_t>(ordinal)];
}

CudaDevice& DeviceOf(const std::string& uuid) {
  RequireDriver();
  const std::string wanted = NormalUuid(uuid);
  std::string known;
  for (const auto& device : AllDevices()) {
    if (device->uuid() == wanted) return *device;
    known += " " + device->uuid();
  }
  throw SystemError(ENODEV, "No CUDA device of this process has UUID " + wanted + ", only" + known +
                                ": CUDA_VISIBLE_DEVICES may hide it");
}

ProbeReport Probe() {
  ProbeReport report;
  const DriverState& state = TheDriver();
  report.available = state.driver != nullptr;
  report.reason = state.reason;
  if (state.driver != nullptr) {
    report.library = state.driver->library;
    report.driver_version = state.driver->version;
    for (const auto& device : AllDevices()) report.devices.push_back(device->Report());
  }
  const CompilerState& compiler = TheCompiler(report.driver_version);
  report.compiler_available = compiler.available;
  report.compiler_reason = compiler.reason;
  report.compiler_library = compiler.library;
  report.compiler_version = compiler.version;
  return report;
}

Device& OpenDevice(int32_t ordinal) {
  CudaDevice& device = DeviceAt(ordinal);
  device.Enter();
  return device;
}

}  // namespace orbitkv::cuda
