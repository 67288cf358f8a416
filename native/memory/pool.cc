#include "memory/pool.h"

#include <sys/mman.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <string>

#include "base/clock.h"
#include "base/system_error.h"
#include "memory/host_memory.h"

namespace orbitkv {

namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

#ifndef MADV_POPULATE_WRITE
constexpr int MADV_POPULATE_WRITE = 23;
#endif

/// Maps `bytes` at a 2 MiB boundary, or returns null with errno set.
std::byte* MapAligned(size_t bytes) {
  const size_t reserved = bytes + kHugePageBytes;
  void* mapped =
      mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* first = static_cast<std::byte*>(mapped);
  const size_t head =
      (kHugePageBytes - reinterpret_cast<uintptr_t>(first) % kHugePageBytes) % kHugePageBytes;
  if (head > 0) munmap(first, head);
  munmap(first + head + bytes, reserved - head - bytes);
  return first + head;
}

/// Touches every page: by one call where the kernel has it (5.14), by hand where it does not.
int Populate(std::byte* base, size_t bytes) {
  while (madvise(base, bytes, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno != EINVAL) return -errno;
    constexpr size_t kPageBytes = 4096;
    for (size_t offset = 0; offset < bytes; offset += kPageBytes)
      *static_cast<volatile std::byte*>(base + offset) = std::byte{0};
    return 0;
  }
  return 0;
}

/// AnonHugePages of the mappings inside [base, base + bytes), from smaps; 0 when it cannot be read.
size_t ReadHugePageBytes(const std::byte* base, size_t bytes) {
  FILE* smaps = std::fopen("/proc/self/smaps", "re");
  if (smaps == nullptr) return 0;
  const auto first = reinterpret_cast<uintptr_t>(base);
  size_t total = 0;
  bool inside = false;
  char line[512];
  while (std::fgets(line, sizeof line, smaps) != nullptr) {
    uintptr_t start;
    uintptr_t end;
    size_t kib;
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &start, &end) == 2)
      inside = start >= first && end <= first + bytes;
    else if (inside && std::sscanf(line, "AnonHugePages: %zu kB", &kib) == 1)
      total += kib * 1024;
  }
  std::fclose(smaps);
  return total;
}

std::string MiB(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

void RefuseWhatDoesNotFit(size_t bytes) {
  const HostMemory host = ReadHostMemory();
  if (bytes <= host.available_bytes && bytes <= host.cgroup_free_bytes) return;
  throw SystemError(
      ENOMEM, "Cannot open a pool of " + MiB(bytes) + ": " + MiB(host.available_bytes) +
                  " are available on this host and the control group allows " +
                  (host.cgroup_limited ? MiB(host.cgroup_free_bytes) + " more" : "any amount"));
}

}  // namespace

std::shared_ptr<Pool> Pool::Open(size_t bytes, PoolPages pages) {
  const size_t mapped = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  RefuseWhatDoesNotFit(mapped);
  std::byte* base = MapAligned(mapped);
  if (base == nullptr) throw SystemError(errno, "Cannot map a pool of " + MiB(mapped));
  std::unique_ptr<Pool> owner;
  try {
    owner.reset(new Pool(base, mapped));
  } catch (...) {
    munmap(base, mapped);
    throw;
  }
  const std::shared_ptr<Pool> pool(std::move(owner));
  // Hints: what the kernel made of the first is read back, the others exist on every kernel that we
  // support.
  madvise(base, mapped, pages == PoolPages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  madvise(base, mapped, MADV_DONTFORK);
  madvise(base, mapped, MADV_DONTDUMP);
  const int64_t start_us = MonotonicUs();
  const int populated = Populate(base, mapped);
  if (populated < 0) throw SystemError(-populated, "Cannot populate a pool of " + MiB(mapped));
  pool->populate_ms_ = static_cast<double>(MonotonicUs() - start_us) / 1000.0;
  pool->huge_page_bytes_ = ReadHugePageBytes(base, mapped);
  return pool;
}

std::shared_ptr<Pool> Pool::OnDevice(std::byte* base, size_t bytes, int32_t device,
                                     std::shared_ptr<const void> backing) {
  std::shared_ptr<Pool> pool(new Pool(base, bytes));
  pool->device_ = device;
  pool->backing_ = std::move(backing);
  return pool;
}

std::shared_ptr<void> Pool::Attached(const void* kind) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [of, attachment] : attached_)
    if (of == kind) return attachment;
  return nullptr;
}

void Pool::Attach(const void* kind, std::shared_ptr<void> attachment) {
  const std::lock_guard lock(mutex_);
  attached_.emplace_back(kind, std::move(attachment));
}

Pool::~Pool() {
  attached_.clear();
  if (device_ == kHostDevice) munmap(base_, bytes_);
}

}  // namespace orbitkv
