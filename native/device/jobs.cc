#include "device/jobs.h"

#include <cerrno>
#include <limits>
#include <unordered_map>
#include <utility>

#include "base/whole_number.h"
#include "memory/engine_memory.h"

namespace orbitkv {
namespace {

/// COPY and CHECKSUM in src/shared/layout/descriptors.ts.
enum CopyField : size_t {
  kTemplate,
  kGranule,
  kPage,
  kPoolOffset,
  kFirstItem,
  kItemCount,
  kStoredBytes,
  kCopyFields
};
enum ChecksumField : size_t { kOffset, kBytes, kSegmentBytes, kSegmentStride, kChecksumFields };

enum MoveField : size_t { kTarget, kTargetOffset, kSource, kSourceOffset, kMoveBytes, kMoveFields };
enum MappedField : size_t {
  kMapping,
  kMappedOffset,
  kMappedBytes,
  kMappedSegmentBytes,
  kMappedSegmentStride,
  kMappedFields
};

static_assert(kCopyFields == kCopyDoubles && kChecksumFields == kChecksumDoubles);
static_assert(kMoveFields == kMoveDoubles && kMappedFields == kMappedChecksumDoubles);

/// Descriptors in one list: as many granules of 4 KiB as 16 GiB hold; more is a mistake.
constexpr size_t kDescriptorsMax = size_t{1} << 22;

template <size_t N>
bool ReadFields(std::span<const double> fields, uint64_t (&whole)[N]) {
  for (size_t field = 0; field < N; ++field)
    if (!WholeNumber(fields[field], &whole[field])) return false;
  return true;
}

bool WholeList(std::span<const double> descriptors, size_t fields) {
  return !descriptors.empty() && descriptors.size() % fields == 0 &&
         descriptors.size() / fields <= kDescriptorsMax;
}

/// Finds templates by number; a list mostly names one, many times in a row.
class TemplatesInUse {
 public:
  explicit TemplatesInUse(std::vector<std::shared_ptr<const CopyTemplate>>* held) : held_(held) {}

  const CopyTemplate* Find(uint64_t number) {
    if (number == last_) return held_->back().get();
    if (number > std::numeric_limits<int32_t>::max()) return nullptr;
    auto found = EngineMemory::Instance().FindTemplate(static_cast<int32_t>(number));
    if (found == nullptr) return nullptr;
    held_->push_back(std::move(found));
    last_ = number;
    return held_->back().get();
  }

 private:
  std::vector<std::shared_ptr<const CopyTemplate>>* held_;
  uint64_t last_ = std::numeric_limits<uint64_t>::max();
};

/// Finds mappings by number, as TemplatesInUse; a list names few, in any order.
class MappingsInUse {
 public:
  MappingsInUse(int32_t device, std::vector<std::shared_ptr<Mapping>>* held)
      : device_(device), held_(held) {}

  /// The address of a range of a mapping, or null with `error` set.
  std::byte* Range(uint64_t number, uint64_t offset, uint64_t bytes, int* error) {
    const Mapping* mapping = Find(number);
    *error = mapping != nullptr && mapping->device() != device_ ? -EXDEV : -EINVAL;
    if (mapping == nullptr || mapping->device() != device_ || !mapping->Contains(offset, bytes))
      return nullptr;
    return mapping->base() + offset;
  }

 private:
  const Mapping* Find(uint64_t number) {
    if (const auto seen = seen_.find(number); seen != seen_.end()) return seen->second;
    if (number > std::numeric_limits<int32_t>::max()) return nullptr;
    auto found = EngineMemory::Instance().FindMapping(static_cast<int32_t>(number));
    if (found == nullptr) return nullptr;
    held_->push_back(std::move(found));
    return seen_[number] = held_->back().get();
  }

  const int32_t device_;
  std::vector<std::shared_ptr<Mapping>>* held_;
  std::unordered_map<uint64_t, const Mapping*> seen_;
};

bool IsShaped(uint64_t bytes, uint64_t segment_bytes, uint64_t segment_stride) {
  return segment_bytes > 0 && segment_bytes <= segment_stride && bytes > 0 &&
         bytes % segment_stride == 0;
}

/// The items that a COPY descriptor names, on a page that all of them have.
int FindRun(const uint64_t (&copy)[kCopyFields], int32_t device, TemplatesInUse& templates,
            ItemRun* run) {
  const CopyTemplate* found = templates.Find(copy[kTemplate]);
  if (found != nullptr && found->device() != device) return -EXDEV;
  if (found == nullptr || !found->Run(copy[kGranule], copy[kFirstItem], copy[kItemCount], run) ||
      copy[kPage] >= run->page_count)
    return -EINVAL;
  return 0;
}

}  // namespace

int DecodeCopies(std::span<const double> descriptors, std::shared_ptr<Pool> pool, int32_t device,
                 CopyJob* job) {
  if (pool == nullptr || !WholeList(descriptors, kCopyFields)) return -EINVAL;
  TemplatesInUse templates(&job->templates);
  job->steps.reserve(descriptors.size() / kCopyFields);
  for (size_t at = 0; at < descriptors.size(); at += kCopyFields) {
    uint64_t copy[kCopyFields];
    if (!ReadFields(descriptors.subspan(at, kCopyFields), copy)) return -EINVAL;
    ItemRun run;
    if (const int refused = FindRun(copy, device, templates, &run); refused != 0) return refused;
    if (copy[kStoredBytes] != 0 || !pool->Contains(copy[kPoolOffset], run.extent_bytes))
      return -EINVAL;
    job->steps.push_back({run.items, copy[kPage], pool->base() + copy[kPoolOffset]});
    job->bytes += run.bytes;
  }
  job->pool = std::move(pool);
  return 0;
}

int DecodeCodes(std::span<const double> descriptors, CodeDirection direction,
                std::shared_ptr<Pool> pool, int32_t device, CodeJob* job) {
  if (pool == nullptr || !WholeList(descriptors, kCopyFields)) return -EINVAL;
  TemplatesInUse templates(&job->templates);
  job->steps.reserve(descriptors.size() / kCopyFields);
  for (size_t at = 0; at < descriptors.size(); at += kCopyFields) {
    uint64_t copy[kCopyFields];
    if (!ReadFields(descriptors.subspan(at, kCopyFields), copy)) return -EINVAL;
    ItemRun run;
    if (const int refused = FindRun(copy, device, templates, &run); refused != 0) return refused;
    const TemplateItem& item = run.items.front();
    const uint64_t stored = copy[kStoredBytes];
    const bool fits =
        direction == CodeDirection::kEncode ? stored % kCodedAlign == 0 : stored < item.bytes;
    if (run.items.size() != 1 || item.coding.raw() || stored == 0 || !fits ||
        !pool->Contains(copy[kPoolOffset], stored))
      return -EINVAL;
    job->steps.push_back({&item, item.Page(copy[kPage]), pool->base() + copy[kPoolOffset], stored});
    job->bytes += item.bytes;
  }
  job->pool = std::move(pool);
  return 0;
}

int DecodeChecksums(std::span<const double> descriptors, std::shared_ptr<Pool> pool,
                    ChecksumJob* job) {
  if (pool == nullptr || !WholeList(descriptors, kChecksumFields)) return -EINVAL;
  job->steps.reserve(descriptors.size() / kChecksumFields);
  for (size_t at = 0; at < descriptors.size(); at += kChecksumFields) {
    uint64_t sum[kChecksumFields];
    if (!ReadFields(descriptors.subspan(at, kChecksumFields), sum)) return -EINVAL;
    if (!IsShaped(sum[kBytes], sum[kSegmentBytes], sum[kSegmentStride]) ||
        !pool->Contains(sum[kOffset], sum[kBytes]))
      return -EINVAL;
    job->steps.push_back(
        {pool->base() + sum[kOffset], sum[kBytes], sum[kSegmentBytes], sum[kSegmentStride]});
    job->bytes += sum[kBytes];
  }
  job->pool = std::move(pool);
  return 0;
}

int DecodeMoves(std::span<const double> descriptors, int32_t device, MoveJob* job) {
  if (!WholeList(descriptors, kMoveFields)) return -EINVAL;
  MappingsInUse mappings(device, &job->mappings);
  job->steps.reserve(descriptors.size() / kMoveFields);
  for (size_t at = 0; at < descriptors.size(); at += kMoveFields) {
    uint64_t move[kMoveFields];
    if (!ReadFields(descriptors.subspan(at, kMoveFields), move)) return -EINVAL;
    int error;
    std::byte* target =
        mappings.Range(move[kTarget], move[kTargetOffset], move[kMoveBytes], &error);
    if (target == nullptr) return error;
    const std::byte* source =
        mappings.Range(move[kSource], move[kSourceOffset], move[kMoveBytes], &error);
    if (source == nullptr) return error;
    if (source < target + move[kMoveBytes] && target < source + move[kMoveBytes]) return -EINVAL;
    job->steps.push_back({target, source, move[kMoveBytes]});
    job->bytes += move[kMoveBytes];
  }
  return 0;
}

int DecodeMappedChecksums(std::span<const double> descriptors, int32_t device,
                          MappedChecksumJob* job) {
  if (!WholeList(descriptors, kMappedFields)) return -EINVAL;
  MappingsInUse mappings(device, &job->mappings);
  job->steps.reserve(descriptors.size() / kMappedFields);
  for (size_t at = 0; at < descriptors.size(); at += kMappedFields) {
    uint64_t sum[kMappedFields];
    if (!ReadFields(descriptors.subspan(at, kMappedFields), sum)) return -EINVAL;
    if (!IsShaped(sum[kMappedBytes], sum[kMappedSegmentBytes], sum[kMappedSegmentStride]))
      return -EINVAL;
    int error;
    const std::byte* first =
        mappings.Range(sum[kMapping], sum[kMappedOffset], sum[kMappedBytes], &error);
    if (first == nullptr) return error;
    job->steps.push_back(
        {first, sum[kMappedBytes], sum[kMappedSegmentBytes], sum[kMappedSegmentStride]});
    job->bytes += sum[kMappedBytes];
  }
  return 0;
}

}  // namespace orbitkv
