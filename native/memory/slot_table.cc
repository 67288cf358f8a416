#include "memory/slot_table.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/system_error.h"
#include "codec/crc32.h"
#include "memory/memfd.h"

namespace orbitkv {
namespace {

constexpr size_t kSlotBytes = 64;
constexpr size_t kPayloadWords = 7;  // bytes 8..63

enum ClientWordIndex : size_t { kWord = 0, kOpId = 1, kFence = 2 };

struct Payload {
  uint64_t op_id;
  uint32_t error_code;
  uint32_t first_failed;
  uint64_t bytes;
  uint64_t admit_ns;
  uint64_t done_ns;
  uint64_t layers;
  uint32_t crc32;
  uint32_t zero;
};
static_assert(sizeof(Payload) == kPayloadWords * sizeof(uint64_t) &&
              offsetof(Payload, crc32) == 48);
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "slots are little endian");
static_assert(std::atomic_ref<uint64_t>::is_always_lock_free);

std::atomic_ref<uint64_t> At(const Mapping& file, uint32_t slot, size_t word) {
  return std::atomic_ref(reinterpret_cast<uint64_t*>(file.base() + slot * kSlotBytes)[word]);
}

uint64_t Word(uint64_t generation, uint32_t state) { return generation << 16 | state; }

}  // namespace

SlotTable::SlotTable(uint32_t slots)
    : slots_(slots), event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!event_.valid()) throw SystemError(errno, "Cannot create an eventfd");
  if (slots == 0 || slots > kSlotsMax)
    throw SystemError(EINVAL, "Cannot create " + std::to_string(slots) + " slots");
  const uint64_t bytes = slots * kSlotBytes;
  client_fd_ = CreateMemory(bytes);
  SealMemory(client_fd_, Sealing::kSize);
  client_ = Mapping::Map(client_fd_.get(), bytes);
  manager_fd_ = CreateMemory(bytes);
  manager_ = Mapping::Map(manager_fd_.get(),
                          bytes);  // before the seal, which leaves this mapping writable
  SealMemory(manager_fd_, Sealing::kSizeAndWrites);
}

uint64_t SlotTable::ClientWord(uint32_t slot) const {
  return At(*client_, slot, kWord).load(std::memory_order_acquire);
}

uint64_t SlotTable::Fence(uint32_t slot) const {
  return At(*client_, slot, kFence).load(std::memory_order_acquire);
}

uint64_t SlotTable::ManagerWord(uint32_t slot) const {
  return At(*manager_, slot, kWord).load(std::memory_order_acquire);
}

void SlotTable::SetWord(uint32_t slot, uint64_t generation, uint32_t state) {
  At(*manager_, slot, kWord).store(Word(generation, state), std::memory_order_release);
}

void SlotTable::Finish(uint32_t slot, uint64_t generation, uint32_t state,
                       const SlotResult& result) {
  Payload payload{.op_id = At(*client_, slot, kOpId).load(std::memory_order_relaxed),
                  .error_code = result.error_code,
                  .first_failed = result.first_failed,
                  .bytes = result.bytes,
                  .admit_ns = result.admit_ns,
                  .done_ns = result.done_ns,
                  .layers = 0,
                  .crc32 = 0,
                  .zero = 0};
  payload.crc32 = crc32(0, &payload, offsetof(Payload, crc32));
  std::array<uint64_t, kPayloadWords> words;
  std::memcpy(words.data(), &payload, sizeof payload);

  // The word that is there now must be seen before the new payload is: a reader of the old one then
  // sees it change.
  std::atomic_thread_fence(std::memory_order_release);
  for (size_t i = 0; i < kPayloadWords; ++i)
    At(*manager_, slot, 1 + i).store(words[i], std::memory_order_relaxed);
  SetWord(slot, generation, state);

  const uint64_t one = 1;
  // Fails only when 2^64 - 2 hints are unread, which hint as well.
  [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof one);
}

UniqueFd SlotTable::DuplicateEventFd() const {
  UniqueFd copy(fcntl(event_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) throw SystemError(errno, "Cannot duplicate an eventfd");
  return copy;
}

}  // namespace orbitkv
