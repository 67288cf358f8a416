#include "port/submission.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/whole_number.h"
#include "files/shard_file.h"

namespace orbitkv {

namespace {

// Largest transfer of one read or write in Linux.
constexpr uint64_t kTransferBytesMax = 0x7ffff000;
// Direct I/O on a filesystem that does not say: the least that any block device takes.
constexpr uint32_t kAlignDefault = 512;
// What granules are padded to, on every file: the pieces of a write of spans are whole ones.
constexpr uint64_t kSectorBytes = 512;

constexpr uint64_t kRead = 0;
constexpr uint64_t kWrite = 1;
constexpr uint64_t kWriteSpans = 2;
constexpr uint64_t kFlagVerify = 1;

/// Fields of one submission, as in src/binding/submissions.ts.
enum Field : size_t {
  kOpAndFlags,
  kTag,
  kFile,
  kFileOffset,
  /// Of a write of spans: how many they are.
  kPoolOffset,
  kBytes,
  kSegmentBytes,
  kSegmentStride,
  kCrc32,
};

/// A whole number below `end`.
bool ToWhole(double number, uint64_t end, uint64_t* out) {
  return WholeNumber(number, out) && *out < end;
}

/// Whether direct I/O takes these bytes: address and length are multiples of what the file wants.
bool IsAligned(const ShardFile& file, const void* memory, uint64_t bytes) {
  if (!file.direct) return true;
  const uint32_t offset_align = file.direct_offset_align ? file.direct_offset_align : kAlignDefault;
  const uint32_t memory_align = file.direct_memory_align ? file.direct_memory_align : kAlignDefault;
  return bytes % offset_align == 0 && reinterpret_cast<uintptr_t>(memory) % memory_align == 0;
}

/// Fills `vector` with the first `count` spans; true when they are `bytes` in all and each is
/// inside the pool, of whole sectors and what the file wants.
bool TakeSpans(std::span<const double> spans, uint64_t count, uint64_t bytes, const Pool& pool,
               const ShardFile& file, std::span<iovec> vector) {
  if (count == 0 || count > kWriteSpansMax || count * kSpanDoubles > spans.size()) return false;
  // As a submission: copied once, then checked, then the copy is used.
  std::array<double, kWriteSpansMax * kSpanDoubles> copy;
  std::copy_n(spans.begin(), count * kSpanDoubles, copy.begin());
  uint64_t left = bytes;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t offset;
    uint64_t length;
    if (!ToWhole(copy[i * kSpanDoubles], INT64_MAX, &offset) ||
        !ToWhole(copy[i * kSpanDoubles + 1], left + 1, &length))
      return false;
    if (length == 0 || offset % kSectorBytes != 0 || length % kSectorBytes != 0 ||
        !pool.Contains(offset, length) || !IsAligned(file, pool.base() + offset, length))
      return false;
    vector[i] = {pool.base() + offset, length};
    left -= length;
  }
  return left == 0;
}

}  // namespace

int32_t TagOf(const double* entry) {
  const double tag = entry[kTag];
  return tag >= -2147483648.0 && tag <= 2147483647.0 ? static_cast<int32_t>(tag) : -1;
}

int CheckSubmission(const double* entry, std::span<const double> spans, const Pool* pool,
                    std::span<iovec> vector, Submission& submission) {
  // Copied once, then checked, then the copy is used: the memory is shared.
  std::array<double, kSubmissionDoubles> copy;
  std::copy_n(entry, kSubmissionDoubles, copy.begin());
  uint64_t op;
  uint64_t file;
  uint64_t offset;
  uint64_t place;
  uint64_t bytes;
  if (!ToWhole(copy[kOpAndFlags], 65536, &op) || !ToWhole(copy[kFile], INT32_MAX, &file) ||
      !ToWhole(copy[kFileOffset], INT64_MAX, &offset) ||
      !ToWhole(copy[kPoolOffset], INT64_MAX, &place) ||
      !ToWhole(copy[kBytes], kTransferBytesMax + 1, &bytes))
    return -EINVAL;
  const uint64_t kind = op % 256;
  const uint64_t flags = op / 256;
  if (kind > kWriteSpans || flags > kFlagVerify || (kind != kRead && flags != 0) || bytes == 0)
    return -EINVAL;
  if (pool == nullptr || (kind != kWriteSpans && !pool->Contains(place, bytes))) return -EINVAL;

  IoRequest& request = submission.request;
  request = {};
  request.file_number = static_cast<int32_t>(file);
  request.file = Files().Find(request.file_number);
  if (request.file == nullptr) return -EBADF;
  request.write = kind != kRead;
  request.offset = offset;
  request.bytes = static_cast<uint32_t>(bytes);
  // A write may not grow the file; a read past its end is short, and the caller sees that.
  if (request.write && offset + bytes > request.file->bytes) return -EINVAL;
  if (!IsAligned(*request.file, nullptr, offset)) return -EINVAL;
  if (kind == kWriteSpans) {
    if (!TakeSpans(spans, place, bytes, *pool, *request.file, vector)) return -EINVAL;
    request.vector = vector.first(place);
    request.memory = nullptr;
  } else {
    request.memory = pool->base() + place;
    if (!IsAligned(*request.file, request.memory, bytes)) return -EINVAL;
  }

  submission.verify = flags == kFlagVerify;
  if (!submission.verify) return 0;
  uint64_t segment;
  uint64_t stride;
  uint64_t crc;
  if (!ToWhole(copy[kSegmentBytes], bytes + 1, &segment) ||
      !ToWhole(copy[kSegmentStride], bytes + 1, &stride) ||
      !ToWhole(copy[kCrc32], uint64_t{1} << 32, &crc))
    return -EINVAL;
  if (segment == 0 || segment > stride || bytes % stride != 0) return -EINVAL;
  submission.segment_bytes = static_cast<uint32_t>(segment);
  submission.segment_stride = static_cast<uint32_t>(stride);
  submission.crc = static_cast<uint32_t>(crc);
  return 0;
}

}  // namespace orbitkv
