#include "device/jobs.h"

#include <cerrno>
#include <limits>
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
  kCopyFields
};
enum ChecksumField : size_t { kOffset, kBytes, kSegmentBytes, kSegmentStride, kChecksumFields };

static_assert(kCopyFields == kCopyDoubles && kChecksumFields == kChecksumDoubles);

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

}  // namespace

int DecodeCopies(std::span<const double> descriptors, std::shared_ptr<Pool> pool, CopyJob* job) {
  if (pool == nullptr || !WholeList(descriptors, kCopyFields)) return -EINVAL;
  TemplatesInUse templates(&job->templates);
  job->steps.reserve(descriptors.size() / kCopyFields);
  for (size_t at = 0; at < descriptors.size(); at += kCopyFields) {
    uint64_t copy[kCopyFields];
    if (!ReadFields(descriptors.subspan(at, kCopyFields), copy)) return -EINVAL;
    const CopyTemplate* found = templates.Find(copy[kTemplate]);
    ItemRun run;
    if (found == nullptr || !found->Run(copy[kGranule], copy[kFirstItem], copy[kItemCount], &run))
      return -EINVAL;
    if (copy[kPage] >= run.page_count || !pool->Contains(copy[kPoolOffset], run.extent_bytes))
      return -EINVAL;
    job->steps.push_back({run.items, copy[kPage], pool->base() + copy[kPoolOffset]});
    job->bytes += run.bytes;
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
    const bool shaped = sum[kSegmentBytes] > 0 && sum[kSegmentBytes] <= sum[kSegmentStride] &&
                        sum[kBytes] > 0 && sum[kBytes] % sum[kSegmentStride] == 0;
    if (!shaped || !pool->Contains(sum[kOffset], sum[kBytes])) return -EINVAL;
    job->steps.push_back(
        {pool->base() + sum[kOffset], sum[kBytes], sum[kSegmentBytes], sum[kSegmentStride]});
    job->bytes += sum[kBytes];
  }
  job->pool = std::move(pool);
  return 0;
}

}  // namespace orbitkv
