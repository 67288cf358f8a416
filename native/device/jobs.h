#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "memory/copy_template.h"
#include "memory/pool.h"

namespace orbitkv {

/// Sizes of descriptors in src/shared/layout/descriptors.ts, in float64.
inline constexpr size_t kCopyDoubles = 7;
inline constexpr size_t kChecksumDoubles = 4;
inline constexpr size_t kMoveDoubles = 5;
inline constexpr size_t kMappedChecksumDoubles = 5;

/// One granule, or a part of it, and one engine page.
struct CopyStep {
  std::span<const TemplateItem> items;
  uint64_t page;
  std::byte* granule;
};

/// Copies that were checked; holds everything they point into.
struct CopyJob {
  std::vector<CopyStep> steps;
  std::vector<std::shared_ptr<const CopyTemplate>> templates;
  std::shared_ptr<Pool> pool;
  uint64_t bytes = 0;
};

struct ChecksumStep {
  const std::byte* granule;
  uint64_t bytes;
  uint64_t segment_bytes;
  uint64_t segment_stride_bytes;
};

struct ChecksumJob {
  std::vector<ChecksumStep> steps;
  std::shared_ptr<Pool> pool;
  uint64_t bytes = 0;
};

/// One item, its place in a page, and its coding's place: `stored` bytes of coding, or of room.
struct CodeStep {
  const TemplateItem* item;
  std::byte* page;
  std::byte* coded;
  uint64_t stored;
};

struct CodeJob {
  std::vector<CodeStep> steps;
  std::vector<std::shared_ptr<const CopyTemplate>> templates;
  std::shared_ptr<Pool> pool;
  uint64_t bytes = 0;  // of the items
};

enum class CodeDirection { kEncode, kDecode };

/// Both take whole COPY or CHECKSUM descriptors (src/shared/layout/descriptors.ts) that nobody else
/// can write any more, and check every one before they return 0. -EINVAL: one is malformed or leads
/// out of its memory.
/// -EXDEV: a template's memory is not on `device`.
int DecodeCopies(std::span<const double> descriptors, std::shared_ptr<Pool> pool, int32_t device,
                 CopyJob* job);
int DecodeChecksums(std::span<const double> descriptors, std::shared_ptr<Pool> pool,
                    ChecksumJob* job);

/// COPY descriptors of coded items, as the two above: each names the one item of its granule, a
/// coding of which has `storedBytes`, fewer than the item's (decode), or room for that many, a
/// multiple of kCodedAlign (encode).
int DecodeCodes(std::span<const double> descriptors, CodeDirection direction,
                std::shared_ptr<Pool> pool, int32_t device, CodeJob* job);

/// One run between two mappings of one device; both are addresses there.
struct MoveStep {
  std::byte* target;
  const std::byte* source;
  uint64_t bytes;
};

struct MoveJob {
  std::vector<MoveStep> steps;
  std::vector<std::shared_ptr<Mapping>> mappings;
  uint64_t bytes = 0;
};

/// Checksums of device memory; `granule` of each step is an address there.
struct MappedChecksumJob {
  std::vector<ChecksumStep> steps;
  std::vector<std::shared_ptr<Mapping>> mappings;
  uint64_t bytes = 0;
};

/// MOVE and MAPPED_CHECKSUM descriptors, as the two above.
int DecodeMoves(std::span<const double> descriptors, int32_t device, MoveJob* job);
int DecodeMappedChecksums(std::span<const double> descriptors, int32_t device,
                          MappedChecksumJob* job);

}  // namespace orbitkv
