#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "memory/mapping.h"
#include "memory/registry.h"

namespace orbitkv {

/// What a pool asks of the kernel. Ordinary 4 KiB pages are for benches, which compare on equal
/// memory.
enum class PoolPages { kHuge, kOrdinary };

/// Pinned pool of the host: anonymous, 2 MiB aligned, populated, not inherited by children, left
/// out of core dumps. Unmapped when the last port, stream job or view lets go of it. Or a staging
/// buffer on a device, which a stream treats the same.
class Pool {
 public:
  /// Throws SystemError: ENOMEM names what was asked and what the host allows.
  static std::shared_ptr<Pool> Open(size_t bytes, PoolPages pages = PoolPages::kHuge);

  /// Device memory at address `base` of device `device`; `backing` keeps it there.
  static std::shared_ptr<Pool> OnDevice(std::byte* base, size_t bytes, int32_t device,
                                        std::shared_ptr<const void> backing);

  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  std::byte* base() const { return base_; }
  size_t bytes() const { return bytes_; }
  /// kHostDevice, or the ordinal of the device that the memory is on.
  int32_t device() const { return device_; }
  /// Bytes in huge pages, read back from the kernel after populating.
  size_t huge_page_bytes() const { return huge_page_bytes_; }
  double populate_ms() const { return populate_ms_; }

  /// What a device made for this pool (its registration with a driver) and ends before the pool is
  /// unmapped; null before the first Attach. `kind` is the address of something static.
  std::shared_ptr<void> Attached(const void* kind) const;
  void Attach(const void* kind, std::shared_ptr<void> attachment);

  /// True when [offset, offset + bytes) lies inside.
  bool Contains(uint64_t offset, uint64_t bytes) const {
    return bytes <= bytes_ && offset <= bytes_ - bytes;
  }

 private:
  Pool(std::byte* base, size_t bytes) : base_(base), bytes_(bytes) {}

  std::byte* base_;
  size_t bytes_;
  int32_t device_ = kHostDevice;
  std::shared_ptr<const void> backing_;
  size_t huge_page_bytes_ = 0;
  double populate_ms_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::pair<const void*, std::shared_ptr<void>>> attached_;
};

/// Pool number -> pool. `Pools().Find(n)` keeps it mapped for as long as the shared_ptr lives.
inline Registry<Pool>& Pools() { return RegistryOf<Pool>(); }

}  // namespace orbitkv
