#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "cuda/code_kernels.h"
#include "cuda/devices.h"
#include "cuda/driver.h"
#include "cuda/kernels.h"
#include "device/device.h"
#include "memory/pool.h"

namespace orbitkv::cuda {

/// How long the driver took to take a pool; ends with the pool.
struct PoolRegistration {
  const Driver* driver;
  Context context;
  void* base;
  bool ours;  // somebody else may have registered it before
  double milliseconds;

  PoolRegistration(const Driver& driver, Context context, Pool& pool);
  PoolRegistration(const PoolRegistration&) = delete;
  PoolRegistration& operator=(const PoolRegistration&) = delete;
  ~PoolRegistration();
};

/// One CUDA device with its primary context, which is retained once and never released: its memory
/// may be in use until the process ends. Thread-safe. One object a device for the whole process.
///
/// A sticky error ends it: nothing is accepted any more, what is in flight fails, and mappings
/// cannot be closed. Another process is needed to use the device again.
class CudaDevice : public Device {
 public:
  /// Makes no context. `driver` lives until the process ends.
  CudaDevice(const Driver& driver, int32_t ordinal);

  std::unique_ptr<Stream> OpenStream(StreamContext context, const StreamOptions& options) override;
  /// As OpenStream, for who works on the stream as well (cuFile).
  std::unique_ptr<class CudaStream> OpenCudaStream(StreamContext context,
                                                   const StreamOptions& options);
  std::unique_ptr<Event> CreateEvent() override;

  const Driver& driver() const { return driver_; }
  int32_t ordinal() const { return ordinal_; }
  const std::string& uuid() const { return uuid_; }
  DeviceReport Report() const;

  /// Retains the primary context if nobody has, and makes it current on this thread. Throws
  /// SystemError ENODEV when it cannot be, or the device has failed.
  void Enter();
  /// Makes the context current, on a device that was entered before.
  Result MakeCurrent() const { return driver_.cuCtxSetCurrent(context_); }

  /// Registers a pool of the host with the driver, for every device, once. Entered. Throws.
  std::shared_ptr<PoolRegistration> Register(Pool& pool);
  /// Null, with `reason` set, when they cannot be had here; tried once. Entered.
  const Kernels* LoadKernels(std::string* reason);

  /// Null when it cannot be had here; tried once. Entered.
  const CodeKernel* LoadCodeKernel(size_t program) {
    return code_kernels_.Load(program, architecture_);
  }

  /// Device memory of our own. Entered. Throws SystemError ENOMEM.
  std::shared_ptr<const void> Allocate(uint64_t bytes, DeviceAddress* address);

  bool failed() const { return failure_.load(std::memory_order_acquire) != kSuccess; }
  /// Remembers a sticky error; returns whether it was one.
  bool Note(Result result);
  /// Ends the device for this process, whatever the error; the first one is remembered.
  void Fail(Result result);

 private:
  const Driver& driver_;
  const int32_t ordinal_;
  DeviceNumber number_ = 0;
  std::string uuid_;
  int architecture_ = 0;
  int multiprocessors_ = 0;
  std::atomic<Result> failure_{kSuccess};
  std::mutex mutex_;
  Context context_ = nullptr;
  bool kernels_tried_ = false;
  std::optional<Kernels> kernels_;
  std::string kernels_reason_;
  CodeKernels code_kernels_;

 public:
  int architecture() const { return architecture_; }
  uint32_t multiprocessors() const { return static_cast<uint32_t>(multiprocessors_); }
};

/// The device with this ordinal or UUID ("GPU-..." or without, any case). Throws SystemError
/// ENODEV.
CudaDevice& DeviceAt(int32_t ordinal);
CudaDevice& DeviceOf(const std::string& uuid);

}  // namespace orbitkv::cuda
