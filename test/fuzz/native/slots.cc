// A finished slot as its client reads it: the Manager's 64 bytes may hold anything.
#include <sys/mman.h>

#include <algorithm>

#include "memory/memfd.h"
#include "memory/slot_lines.h"
#include "memory/slot_table.h"
#include "target.h"

namespace orbitkv::fuzz {

namespace {

constexpr size_t kLineBytes = 64;

/// CRC32 a bit at a time.
uint32_t PlainCrc(std::span<const std::byte> bytes) {
  uint32_t crc = 0xffffffff;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
  }
  return crc ^ 0xffffffff;
}

struct Line {
  UniqueFd client = CreateMemory(kLineBytes);
  UniqueFd manager = CreateMemory(kLineBytes);
  std::shared_ptr<Mapping> written;
  std::unique_ptr<SlotLines> read;

  Line() {
    SealMemory(client, Sealing::kSize);
    SealMemory(manager, Sealing::kSize);
    written = Mapping::Map(manager.get(), kLineBytes);
    read = std::make_unique<SlotLines>(client.get(), manager.get(), 1);
  }
};

uint64_t WordAt(std::span<const std::byte> line, size_t offset) {
  uint64_t word;
  std::memcpy(&word, line.data() + offset, sizeof word);
  return word;
}

Breach Check(Line& line, std::span<const std::byte> input, bool weak) {
  std::array<std::byte, kLineBytes> bytes{};
  std::copy_n(input.begin(), std::min(input.size(), bytes.size()), bytes.begin());
  std::memcpy(line.written->base(), bytes.data(), bytes.size());
  const std::span<const std::byte> all(bytes);
  const uint64_t word = WordAt(all, 0);
  const bool terminal = (word & 0xffff) >= 3 && (word & 0xffff) <= 5;
  const bool agrees = WordAt(all, 56) == PlainCrc(all.subspan(8, 48));
  uint64_t seen = 0;
  SlotLine out{};
  bool taken = line.read->Poll(0, &seen, &out);
  // The weakness: nobody looks at the checksum.
  if (weak) taken = true;
  if (seen != word) return "another word than is there";
  if (taken != (!terminal || agrees))
    return taken ? "a payload that its checksum denies" : "a payload that its checksum confirms";
  if (taken && terminal && !weak && std::memcmp(&out, bytes.data() + 8, sizeof out) != 0)
    return "another payload than is there";
  return std::nullopt;
}

Input Finished(uint64_t word, uint8_t fill) {
  Input line(kLineBytes, static_cast<std::byte>(fill));
  const uint64_t crc = PlainCrc(std::span(line).subspan(8, 48));
  std::memcpy(line.data(), &word, sizeof word);
  std::memcpy(line.data() + 56, &crc, sizeof crc);
  return line;
}

}  // namespace

Target FinishedSlots(bool weak) {
  const auto line = std::make_shared<Line>();
  return {"slot-lines",
          {Finished(1 << 16 | 3, 0), Finished(77ull << 16 | 4, 9), Finished(~0ull << 16 | 5, 255),
           Finished(1 << 16 | 1, 1)},
          false,
          [line, weak](std::span<const std::byte> input) { return Check(*line, input, weak); }};
}

}  // namespace orbitkv::fuzz
