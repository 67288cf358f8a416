#include "memory/mapping.h"

#include <sys/mman.h>

#include <cerrno>
#include <string>
#include <utility>

#include "base/system_error.h"
#include "memory/memfd.h"

namespace orbitkv {

std::shared_ptr<Mapping> Mapping::Import(int fd) { return Map(fd, SealedBytes(fd)); }

std::shared_ptr<Mapping> Mapping::Map(int fd, uint64_t bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED)
    throw SystemError(errno, "Cannot map " + std::to_string(bytes) + " bytes of shared memory");
  // Advice only: a child has no use for it, and a core dump is no place for a peer's memory.
  madvise(base, bytes, MADV_DONTFORK);
  madvise(base, bytes, MADV_DONTDUMP);
  return Own(static_cast<std::byte*>(base), bytes);
}

std::shared_ptr<Mapping> Mapping::Own(std::byte* base, uint64_t bytes) {
  try {
    return std::make_shared<Mapping>(base, bytes);
  } catch (...) {
    munmap(base, bytes);
    throw;
  }
}

std::shared_ptr<Mapping> Mapping::Lend(std::byte* base, uint64_t bytes) {
  return std::make_shared<Mapping>(base, bytes, Owner::kLender);
}

std::shared_ptr<Mapping> Mapping::OnDevice(std::byte* base, uint64_t bytes, int32_t device,
                                           std::shared_ptr<const void> backing) {
  auto mapping = std::make_shared<Mapping>(base, bytes, Owner::kLender);
  mapping->device_ = device;
  mapping->backing_ = std::move(backing);
  return mapping;
}

Mapping::Mapping(std::byte* base, uint64_t bytes, Owner owner)
    : base_(base), bytes_(bytes), owner_(owner) {}

Mapping::~Mapping() {
  if (owner_ == Owner::kUs) munmap(base_, bytes_);
}

}  // namespace orbitkv
