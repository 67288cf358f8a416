#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cufile/library.h"
#include "device/stream.h"

namespace orbitkv::cufile {

/// Where in a file and in the slot a transfer lies.
struct Extent {
  uint64_t file_offset;
  uint64_t staging_offset;
  uint64_t bytes;
};

/// Codings that a write takes from where a stream of the device holds them.
struct HeldWrite {
  /// Triples, see DecodeHeld(); none: nothing is taken.
  std::span<const double> triples;
  /// Null: that stream holds nothing.
  std::shared_ptr<const HeldCodes> held;
};

/// A staging slot: memory of a device that cuFile knows, and a stream of its own on which the
/// memory is what the pool is to others. Everything a driver reads later (sizes, offsets, the
/// result word) has its place in this object, which outlives what is in flight. One transfer at a
/// time.
class Staging : public Stream {
 public:
  /// As stagingRead and stagingWrite in src/binding/cufile.ts.
  virtual int Read(int32_t tag, std::shared_ptr<RegisteredFile> file, const Extent& extent,
                   std::span<const double> checks, size_t result_base) = 0;
  virtual int Write(int32_t tag, std::shared_ptr<RegisteredFile> file, const Extent& extent,
                    uint64_t zero_from, std::span<const double> copies, const HeldWrite& codes) = 0;
  /// Lets the library go of the memory and the stream; nothing may be in flight. 0 or minus a
  /// status: then the memory must stay for ever.
  virtual int Deregister() = 0;
};

/// What every transfer must be: whole pages inside the file and the slot.
bool IsWhole(const Extent& extent, uint64_t file_bytes, uint64_t slot_bytes);

/// A slot in host memory, for engines whose pages are there. Puts what refused it into `code` and
/// returns null. Throws SystemError.
std::unique_ptr<Staging> OpenHostStaging(StreamContext context, uint64_t bytes, int* code);
/// The same in memory of a CUDA device.
std::unique_ptr<Staging> OpenCudaStaging(int32_t ordinal, StreamContext context, uint64_t bytes,
                                         const StreamOptions& options, int* code);

}  // namespace orbitkv::cufile
