#include "memory/slot_lines.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/system_error.h"
#include "codec/crc32.h"
#include "memory/memfd.h"

namespace orbitkv {
namespace {

constexpr size_t kLineWords = 8;
constexpr size_t kPayloadBytes = 48;  // bytes 8..55, which the CRC covers
constexpr int kReadsMax = 8;

constexpr uint64_t kFree = 0;
constexpr uint64_t kSubmitted = 1;
constexpr uint64_t kFirstTerminal = 3;
constexpr uint64_t kLastTerminal = 5;

static_assert(sizeof(SlotLine) == kPayloadBytes);
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "slots are little endian");

std::atomic_ref<uint64_t> At(const Mapping& file, uint32_t slot, size_t word) {
  return std::atomic_ref(reinterpret_cast<uint64_t*>(file.base())[slot * kLineWords + word]);
}

uint64_t Word(uint64_t generation, uint64_t state) { return generation << 16 | state; }

std::shared_ptr<Mapping> MapLines(int fd, uint64_t bytes, int protection) {
  if (SealedBytes(fd) < bytes)
    throw SystemError(EINVAL, "Cannot map slots: fewer lines than " + std::to_string(bytes / 64));
  void* base = mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED)
    throw SystemError(errno, "Cannot map " + std::to_string(bytes) + " bytes of slots");
  // A child of fork() must not write the parent's lines.
  madvise(base, bytes, MADV_DONTFORK);
  return Mapping::Own(static_cast<std::byte*>(base), bytes);
}

}  // namespace

SlotLines::SlotLines(int client_fd, int manager_fd, uint32_t slots) : slots_(slots) {
  const uint64_t bytes = uint64_t{slots} * kLineWords * sizeof(uint64_t);
  if (bytes == 0) throw SystemError(EINVAL, "Cannot map slots: none were granted");
  client_ = MapLines(client_fd, bytes, PROT_READ | PROT_WRITE);
  manager_ = MapLines(manager_fd, bytes, PROT_READ);
}

void SlotLines::Submit(uint32_t slot, uint64_t generation, uint64_t op_id, uint64_t fence) {
  At(*client_, slot, 1).store(op_id, std::memory_order_relaxed);
  At(*client_, slot, 2).store(fence, std::memory_order_relaxed);
  At(*client_, slot, 0).store(Word(generation, kSubmitted), std::memory_order_release);
}

void SlotLines::RaiseFence(uint32_t slot, uint64_t fence) {
  At(*client_, slot, 2).store(fence, std::memory_order_release);
}

void SlotLines::Free(uint32_t slot, uint64_t generation) {
  At(*client_, slot, 0).store(Word(generation, kFree), std::memory_order_release);
}

bool SlotLines::Terminal(uint64_t word) {
  const uint64_t state = word & 0xffff;
  return state >= kFirstTerminal && state <= kLastTerminal;
}

bool SlotLines::Poll(uint32_t slot, uint64_t* out_word, SlotLine* out) const {
  for (int attempt = 0; attempt < kReadsMax; ++attempt) {
    const uint64_t word = At(*manager_, slot, 0).load(std::memory_order_acquire);
    *out_word = word;
    if (!Terminal(word)) return true;
    std::array<uint64_t, kLineWords - 1> words;
    for (size_t i = 0; i < words.size(); ++i)
      words[i] = At(*manager_, slot, 1 + i).load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    const uint64_t again = At(*manager_, slot, 0).load(std::memory_order_relaxed);
    if (again == word && words.back() == crc32(0, words.data(), kPayloadBytes)) {
      std::memcpy(out, words.data(), kPayloadBytes);
      return true;
    }
  }
  return false;
}

}  // namespace orbitkv
