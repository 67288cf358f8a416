#pragma once

#include <cstdint>
#include <memory>

#include "base/unique_fd.h"
#include "memory/mapping.h"
#include "memory/registry.h"

namespace orbitkv {

/// What the Manager says at the end of an operation.
struct SlotResult {
  uint32_t error_code;
  uint32_t first_failed;  // 0xffffffff: none
  uint64_t bytes;
  uint64_t admit_ns;
  uint64_t done_ns;
};

/// The completion slots of one session, in two files so that each side writes only its own words.
/// 64 bytes a slot, little endian:
///
///   client's file    0 u64 word  8 u64 op id  16 u64 fence                              (the
///   client writes) manager's file   0 u64 word  8 u64 op id  16 u32 error  20 u32 first failed  24
///   u64 bytes  32 u64 admitted ns
///                    40 u64 done ns  48 u64 layers  56 u32 CRC32 of bytes 8..55  60 u32 0   (the
///                    client only reads)
///
/// word = generation * 65536 + state. The payload is written before a terminal word, so whoever
/// reads that word, then the payload, then the same word again has the payload of that generation;
/// the CRC holds readers to it that cannot order their loads.
class SlotTable {
 public:
  /// Generations are below 2^37, so that a word is exact as a number of JavaScript.
  static constexpr uint64_t kGenerationEnd = uint64_t{1} << 37;
  static constexpr uint32_t kSlotsMax = 1 << 16;

  /// Throws SystemError. The descriptors that the client is to get stay here until taken.
  explicit SlotTable(uint32_t slots);
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;

  uint32_t slots() const { return slots_; }

  /// Acquire loads of what the client wrote; any value is possible.
  uint64_t ClientWord(uint32_t slot) const;
  uint64_t Fence(uint32_t slot) const;
  /// Acquire load of what some thread of ours wrote last.
  uint64_t ManagerWord(uint32_t slot) const;

  /// Requires slot < slots(), generation < kGenerationEnd and state < 65536, as Finish does.
  void SetWord(uint32_t slot, uint64_t generation, uint32_t state);

  /// Payload with the client's op id, then its CRC, then the word, then the eventfd as a hint.
  /// Never blocks: the eventfd only counts.
  void Finish(uint32_t slot, uint64_t generation, uint32_t state, const SlotResult& result);

  UniqueFd TakeClientFd() { return std::move(client_fd_); }
  UniqueFd TakeManagerFd() { return std::move(manager_fd_); }
  /// Another descriptor of the eventfd. Throws SystemError.
  UniqueFd DuplicateEventFd() const;

 private:
  uint32_t slots_;
  UniqueFd client_fd_;
  UniqueFd manager_fd_;
  UniqueFd event_;
  std::shared_ptr<Mapping> client_;
  std::shared_ptr<Mapping> manager_;
};

}  // namespace orbitkv
