#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/driver.h"
#include "nvcomp/library.h"

namespace orbitkv::cuda {

/// One item and its coding, both in memory that the device reaches.
struct AnsChunk {
  DeviceAddress page;
  uint64_t bytes;
  DeviceAddress coded;
  /// Of the coding when it is decoded; unused when it is made.
  uint64_t coded_bytes;
};

/// The arrays of one batch, in pinned memory that the device reads and writes, or that is copied to
/// the device and back:
///
///   pages        8 bytes a chunk      where the items are
///   page_bytes   8                    their lengths; the most that decoding may write
///   codes        8                    where the codings are, or go
///   code_bytes   8                    their lengths, for decoding
///   done_bytes   8                    what was written, by the device
///   statuses     4                    how it went, by the device; kUntold until then
///
/// They are nvCOMP's until the fence behind the batch has passed. Then the last two may be read,
/// and nothing else says how a chunk went: nvCOMP has been seen to leave a status alone.
struct AnsArrays {
  std::byte* at = nullptr;
  size_t count = 0;

  static constexpr size_t kWords = 5;
  /// The first of those that nvCOMP writes.
  static constexpr size_t kSaid = 4;
  /// No status of nvCOMP.
  static constexpr int32_t kUntold = -1;

  /// What nvCOMP was given for a batch, and reads and writes; not const, because it is not.
  static AnsArrays In(std::span<const std::byte> room, size_t count) {
    return {const_cast<std::byte*>(room.data()), count};
  }
  static constexpr size_t Bytes(size_t count) {
    return count * (kWords * sizeof(uint64_t) + sizeof(int32_t));
  }
  size_t Offset(size_t word) const { return word * count * sizeof(uint64_t); }
  uint64_t* words(size_t word) const { return reinterpret_cast<uint64_t*>(at + Offset(word)); }
  int32_t* statuses() const { return reinterpret_cast<int32_t*>(at + Offset(kWords)); }

  /// For chunks that are to be coded; nothing has been said of any.
  void Fill(std::span<const AnsChunk> chunks) const;
  /// Bytes that were written for a chunk; 0 when it failed, or nothing says that it did not.
  uint64_t Done(size_t chunk) const {
    return statuses()[chunk] == nvcomp::abi::kOk ? words(kSaid)[chunk] : 0;
  }
};

/// Batches of ANS by nvCOMP: what they need, and their calls. Allocates nothing, and never waits.
class AnsCodes {
 public:
  /// Chunks of one call.
  static constexpr size_t kChunksMax = 256;
  /// The type of chunks that are nothing else.
  using Type = nvcomp::abi::DataType;

  /// `functions` are those of the open library.
  explicit AnsCodes(const nvcomp::Functions& functions) : nvcomp_(functions) {}
  AnsCodes(const AnsCodes&) = delete;
  AnsCodes& operator=(const AnsCodes&) = delete;

  /// Room for the coding of a chunk, a multiple of 16 so that what follows is aligned as well; 0:
  /// nvCOMP refuses such chunks.
  uint64_t RoomBytes(Type type, uint64_t chunk_bytes);
  /// Temporary memory of a batch of `count` chunks, the longest of `chunk_bytes_max`; kRefused.
  uint64_t EncodeTempBytes(Type type, size_t count, uint64_t chunk_bytes_max);
  uint64_t DecodeTempBytes(Type type, size_t count, uint64_t chunk_bytes_max);
  static constexpr uint64_t kRefused = UINT64_MAX;

  /// Queues a batch of one type behind what the stream has. `arrays` are filled for `chunks`, and
  /// lie at `arrays_address` for the device. The status of nvCOMP: anything but 0 queued nothing
  /// that can be counted on.
  nvcomp::abi::Status Encode(StreamPointer stream, Type type, std::span<const AnsChunk> chunks,
                             const AnsArrays& arrays, DeviceAddress read, DeviceAddress written,
                             DeviceAddress temp, uint64_t temp_bytes);
  nvcomp::abi::Status Decode(StreamPointer stream, Type type, std::span<const AnsChunk> chunks,
                             const AnsArrays& arrays, DeviceAddress read, DeviceAddress written,
                             DeviceAddress temp, uint64_t temp_bytes);

 private:
  /// What was asked last of one type: batches that follow one another are alike.
  struct Asked {
    size_t count = 0;
    uint64_t chunk_bytes = 0;
    uint64_t answer = 0;
  };
  static constexpr size_t kTypes = 3;
  static size_t PlaceOf(Type type);

  const nvcomp::Functions& nvcomp_;
  std::array<Asked, kTypes> rooms_;
  std::array<Asked, kTypes> encode_temps_;
  std::array<Asked, kTypes> decode_temps_;
};

}  // namespace orbitkv::cuda
