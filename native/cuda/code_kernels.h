#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "codec/item_coding.h"
#include "cuda/driver.h"

namespace orbitkv::cuda {

/// The two kernels of one program (native/kernels/code_source.h).
class CodeKernel {
 public:
  /// Queues a launch over `count` CodeItems of `units` units in all, at addresses of the device; a
  /// word for each item at `flags`. At most `blocks` blocks.
  Result Encode(StreamPointer stream, DeviceAddress items, uint32_t count, uint32_t units,
                DeviceAddress flags, uint32_t blocks) const;
  Result Decode(StreamPointer stream, DeviceAddress items, uint32_t count, uint32_t units,
                DeviceAddress flags, uint32_t blocks) const;

 private:
  friend class CodeKernels;
  const Driver* driver_ = nullptr;
  Function encode_ = nullptr;
  Function decode_ = nullptr;
};

/// The kernels that code items, of one device. FP8 is one program and each shape of TurboQuant is
/// another; each is compiled, or taken from the cache, when it is first asked for. Thread-safe.
class CodeKernels {
 public:
  /// FP8, and 4 head dimensions of 2 numbers of bits.
  static constexpr size_t kPrograms = 9;
  static constexpr size_t kFp8 = 0;

  explicit CodeKernels(const Driver& driver) : driver_(driver) {}

  /// Which program codes items so; kPrograms: none does.
  static size_t ProgramOf(const ItemCoding& coding);
  /// Null when it cannot be had here; tried once. The context is current. Throws nothing but
  /// std::bad_alloc.
  const CodeKernel* Load(size_t program, int architecture);

 private:
  struct Loaded {
    bool tried = false;
    bool works = false;
    CodeKernel kernel;
  };

  const Driver& driver_;
  std::mutex mutex_;
  std::array<Loaded, kPrograms> programs_;
};

}  // namespace orbitkv::cuda
