#include "cuda/ans_codes.h"

#include <algorithm>

namespace orbitkv::cuda {
namespace {

using nvcomp::abi::CompressOptions;
using nvcomp::abi::DecompressOptions;
using nvcomp::abi::kOk;
using nvcomp::abi::Status;

constexpr uint64_t kRoomAlign = 16;

CompressOptions Compressing(AnsCodes::Type type) {
  CompressOptions options;
  options.data_type = type;
  return options;
}

DecompressOptions Decompressing(AnsCodes::Type type) {
  DecompressOptions options;
  options.data_type = type;
  return options;
}

uint64_t Longest(std::span<const AnsChunk> chunks) {
  return std::max_element(chunks.begin(), chunks.end(),
                          [](const AnsChunk& a, const AnsChunk& b) { return a.bytes < b.bytes; })
      ->bytes;
}

/// An array where the device sees it.
template <class T>
T* Seen(const AnsArrays& arrays, DeviceAddress address, size_t word) {
  return reinterpret_cast<T*>(address + arrays.Offset(word));
}

/// Asks nvCOMP anew only when something else was asked last.
template <class Asked, class Ask>
uint64_t TempBytes(Asked& asked, size_t count, uint64_t chunk_bytes_max, Ask&& ask) {
  if (asked.count != count || asked.chunk_bytes != chunk_bytes_max) {
    size_t temp = 0;
    if (ask(&temp) != kOk) return AnsCodes::kRefused;
    asked = {count, chunk_bytes_max, temp};
  }
  return asked.answer;
}

}  // namespace

void AnsArrays::Fill(std::span<const AnsChunk> chunks) const {
  for (size_t i = 0; i < chunks.size(); ++i) {
    words(0)[i] = chunks[i].page;
    words(1)[i] = chunks[i].bytes;
    words(2)[i] = chunks[i].coded;
    words(3)[i] = chunks[i].coded_bytes;
    words(kSaid)[i] = 0;
    statuses()[i] = kUntold;
  }
}

size_t AnsCodes::PlaceOf(Type type) {
  return type == Type::kBytes ? 0 : type == Type::kFloat16 ? 1 : 2;
}

uint64_t AnsCodes::RoomBytes(Type type, uint64_t chunk_bytes) {
  Asked& asked = rooms_[PlaceOf(type)];
  if (asked.chunk_bytes != chunk_bytes) {
    size_t room = 0;
    const Status status = nvcomp_.compress_output_bytes_max(chunk_bytes, Compressing(type), &room);
    if (status != kOk) return 0;
    asked = {1, chunk_bytes, (room + kRoomAlign - 1) / kRoomAlign * kRoomAlign};
  }
  return asked.answer;
}

uint64_t AnsCodes::EncodeTempBytes(Type type, size_t count, uint64_t chunk_bytes_max) {
  return TempBytes(encode_temps_[PlaceOf(type)], count, chunk_bytes_max, [&](size_t* temp) {
    return nvcomp_.compress_temp_bytes(count, chunk_bytes_max, Compressing(type), temp,
                                       count * chunk_bytes_max);
  });
}

uint64_t AnsCodes::DecodeTempBytes(Type type, size_t count, uint64_t chunk_bytes_max) {
  return TempBytes(decode_temps_[PlaceOf(type)], count, chunk_bytes_max, [&](size_t* temp) {
    return nvcomp_.decompress_temp_bytes(count, chunk_bytes_max, Decompressing(type), temp,
                                         count * chunk_bytes_max);
  });
}

Status AnsCodes::Encode(StreamPointer stream, Type type, std::span<const AnsChunk> chunks,
                        const AnsArrays& arrays, DeviceAddress read, DeviceAddress written,
                        DeviceAddress temp, uint64_t temp_bytes) {
  return nvcomp_.compress(
      Seen<const void* const>(arrays, read, 0), Seen<const size_t>(arrays, read, 1),
      Longest(chunks), chunks.size(), reinterpret_cast<void*>(temp), temp_bytes,
      Seen<void* const>(arrays, read, 2), Seen<size_t>(arrays, written, AnsArrays::kSaid),
      Compressing(type), Seen<Status>(arrays, written, AnsArrays::kWords), stream);
}

Status AnsCodes::Decode(StreamPointer stream, Type type, std::span<const AnsChunk> chunks,
                        const AnsArrays& arrays, DeviceAddress read, DeviceAddress written,
                        DeviceAddress temp, uint64_t temp_bytes) {
  return nvcomp_.decompress(
      Seen<const void* const>(arrays, read, 2), Seen<const size_t>(arrays, read, 3),
      Seen<const size_t>(arrays, read, 1), Seen<size_t>(arrays, written, AnsArrays::kSaid),
      chunks.size(), reinterpret_cast<void*>(temp), temp_bytes, Seen<void* const>(arrays, read, 0),
      Decompressing(type), Seen<Status>(arrays, written, AnsArrays::kWords), stream);
}

}  // namespace orbitkv::cuda
