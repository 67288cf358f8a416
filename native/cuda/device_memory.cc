// Device memory of other processes and of this one, as mappings.
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>

#include "base/system_error.h"
#include "cuda/cuda_device.h"

namespace orbitkv::cuda {
namespace {

constexpr const char* kVirtualMemory =
    "memory of a virtual address range cannot be shared this way: run the engine with "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False";

std::byte* Pointer(DeviceAddress address) { return reinterpret_cast<std::byte*>(address); }
DeviceAddress Address(const std::byte* pointer) { return reinterpret_cast<DeviceAddress>(pointer); }

/// An allocation of another process, opened once however many mappings lie in it: the driver of
/// the importer counts in some versions and not in others.
class Import {
 public:
  Import(CudaDevice& device, const IpcHandle& handle) : device_(device) {
    const Driver& driver = device_.driver();
    const Result opened = driver.cuIpcOpenMemHandle(&base_, handle, kIpcLazyPeer);
    if (opened == kInvalidContext)
      throw SystemError(EXDEV,
                        "Cannot import device memory: the handle is of this very process (adopt "
                        "its address instead)");
    driver.Require(opened,
                   "Cannot import device memory: the handle names no allocation of another living "
                   "process on this host, or the allocation was freed (" +
                       std::string(kVirtualMemory) + ")");
    const Result measured = driver.cuMemGetAddressRange(nullptr, &bytes_, base_);
    if (measured != kSuccess) {
      driver.cuIpcCloseMemHandle(base_);
      driver.Require(measured, "Cannot measure imported device memory");
    }
  }
  Import(const Import&) = delete;
  Import& operator=(const Import&) = delete;
  ~Import() {
    if (device_.MakeCurrent() == kSuccess) device_.driver().cuIpcCloseMemHandle(base_);
  }

  DeviceAddress base() const { return base_; }
  uint64_t bytes() const { return bytes_; }

 private:
  CudaDevice& device_;
  DeviceAddress base_ = 0;
  size_t bytes_ = 0;
};

/// Imports by handle. A handle that is being opened or closed has an entry that names nothing:
/// whoever wants it waits, so it is never opened while its last holder closes it. The driver is
/// called without the lock.
class Imports {
 public:
  std::shared_ptr<const Import> Open(CudaDevice& device, const std::byte* bytes) {
    Key key;
    key.device = device.ordinal();
    std::memcpy(key.handle.data(), bytes, kHandleBytes);
    {
      std::unique_lock lock(mutex_);
      for (auto at = open_.find(key); at != open_.end(); at = open_.find(key)) {
        if (auto found = at->second.lock()) return found;
        changed_.wait(lock);
      }
      open_.emplace(key, std::weak_ptr<const Import>());
    }
    // From here on the shared pointer's end takes the entry away, also when there is no memory for
    // its count.
    const std::shared_ptr<const Import> shared(
        OpenOrForget(device, key).release(),
        [this, key](const Import* import) { Close(key, import); });
    const std::lock_guard lock(mutex_);
    open_.find(key)->second = shared;
    changed_.notify_all();
    return shared;
  }

 private:
  struct Key {
    int32_t device;
    std::array<std::byte, kHandleBytes> handle;
    auto operator<=>(const Key&) const = default;
  };

  std::unique_ptr<const Import> OpenOrForget(CudaDevice& device, const Key& key) try {
    IpcHandle handle;
    std::memcpy(handle.bytes, key.handle.data(), kHandleBytes);
    return std::make_unique<const Import>(device, handle);
  } catch (...) {
    Forget(key);
    throw;
  }

  void Close(const Key& key, const Import* import) {
    std::unique_ptr<const Import>(import).reset();
    Forget(key);
  }

  void Forget(const Key& key) {
    const std::lock_guard lock(mutex_);
    open_.erase(key);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::weak_ptr<const Import>> open_;
};

Imports& TheImports() {
  static Imports& imports = *std::make_unique<Imports>().release();  // until the process ends
  return imports;
}

template <class T>
T Attribute(const Driver& driver, int attribute, DeviceAddress address, T otherwise) {
  T value = otherwise;
  return driver.cuPointerGetAttribute(&value, attribute, address) == kSuccess ? value : otherwise;
}

/// A stream of its own for one copy outside any lane.
Result CopyAndWait(const Driver& driver, auto&& copy) {
  StreamPointer stream = nullptr;
  if (const Result made = driver.cuStreamCreate(&stream, kStreamNonBlocking); made != kSuccess)
    return made;
  Result result = copy(stream);
  if (result == kSuccess) result = driver.cuStreamSynchronize(stream);
  driver.cuStreamDestroy(stream);
  return result;
}

}  // namespace

std::shared_ptr<Mapping> ImportMemory(const std::string& uuid, const std::byte* handle,
                                      uint64_t offset, uint64_t bytes) {
  CudaDevice& device = DeviceOf(uuid);
  device.Enter();
  auto import = TheImports().Open(device, handle);
  if (bytes == 0 || bytes > import->bytes() || offset > import->bytes() - bytes)
    throw SystemError(EINVAL, "Cannot import " + std::to_string(bytes) + " bytes at " +
                                  std::to_string(offset) + ": the allocation has " +
                                  std::to_string(import->bytes()));
  std::byte* base = Pointer(import->base() + offset);
  return Mapping::OnDevice(base, bytes, device.ordinal(), std::move(import));
}

std::shared_ptr<Mapping> AdoptMemory(const std::string& uuid, uint64_t address, uint64_t bytes) {
  CudaDevice& device = DeviceOf(uuid);
  device.Enter();
  const Driver& driver = device.driver();
  const std::string what =
      "Cannot adopt " + std::to_string(bytes) + " bytes at address " + std::to_string(address);
  if (Attribute<unsigned>(driver, kPointerMemoryType, address, 0) != kMemoryTypeDevice ||
      Attribute<int>(driver, kPointerOrdinal, address, -1) != device.ordinal())
    throw SystemError(
        EINVAL, what + ": it is no memory of CUDA device " + std::to_string(device.ordinal()));
  if (Attribute<int>(driver, kPointerIpcCapable, address, 0) == 0)
    throw SystemError(EOPNOTSUPP, what + ": " + kVirtualMemory);
  DeviceAddress base = 0;
  size_t whole = 0;
  driver.Require(driver.cuMemGetAddressRange(&base, &whole, address), what);
  if (bytes == 0 || bytes > whole || address - base > whole - bytes)
    throw SystemError(EINVAL, what + ": the allocation there has " + std::to_string(whole) +
                                  " bytes from " + std::to_string(base));
  return Mapping::OnDevice(Pointer(address), bytes, device.ordinal(), nullptr);
}

std::shared_ptr<Mapping> AllocateMemory(const std::string& uuid, uint64_t bytes) {
  CudaDevice& device = DeviceOf(uuid);
  device.Enter();
  DeviceAddress address = 0;
  auto backing = device.Allocate(bytes, &address);
  return Mapping::OnDevice(Pointer(address), bytes, device.ordinal(), std::move(backing));
}

MemoryExport ExportMemory(const Mapping& mapping) {
  if (mapping.device() == kHostDevice)
    throw SystemError(EOPNOTSUPP, "Cannot export memory of the host by a CUDA handle");
  CudaDevice& device = DeviceAt(mapping.device());
  device.Enter();
  const Driver& driver = device.driver();
  const DeviceAddress address = Address(mapping.base());
  DeviceAddress base = 0;
  IpcHandle handle;
  driver.Require(driver.cuMemGetAddressRange(&base, nullptr, address),
                 "Cannot measure device memory");
  const Result got = driver.cuIpcGetMemHandle(&handle, base);
  if (got == kInvalidValue || got == kNotSupported)
    throw SystemError(EOPNOTSUPP, std::string("Cannot export device memory: ") + kVirtualMemory);
  driver.Require(got, "Cannot export device memory");
  MemoryExport exported{device.uuid(), {}, address - base};
  std::memcpy(exported.handle, handle.bytes, kHandleBytes);
  return exported;
}

void ReadMemory(const Mapping& mapping, uint64_t offset, std::byte* into, uint64_t bytes) {
  CudaDevice& device = DeviceAt(mapping.device());
  device.Enter();
  const Driver& driver = device.driver();
  const Result result = CopyAndWait(driver, [&](StreamPointer stream) {
    return driver.cuMemcpyDtoHAsync(into, Address(mapping.base()) + offset, bytes, stream);
  });
  device.Note(result);
  driver.Require(result, "Cannot read device memory");
}

void WriteMemory(const Mapping& mapping, uint64_t offset, const std::byte* from, uint64_t bytes) {
  CudaDevice& device = DeviceAt(mapping.device());
  device.Enter();
  const Driver& driver = device.driver();
  const Result result = CopyAndWait(driver, [&](StreamPointer stream) {
    return driver.cuMemcpyHtoDAsync(Address(mapping.base()) + offset, from, bytes, stream);
  });
  device.Note(result);
  driver.Require(result, "Cannot write device memory");
}

}  // namespace orbitkv::cuda
