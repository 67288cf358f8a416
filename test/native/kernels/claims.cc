// What the kernels promise, run on the device of device.h: every byte of every run arrives once, no
// byte beside one is written, none outside a source is read, wide accesses are aligned (the
// undefined-behaviour sanitizer says so), checksums are CRC32. The kernels' text comes from a file
// that kernels.test.ts cuts out of native/kernels: as it is, in namespace text0, and broken, in
// text1 and so on; a broken one must end this program. Arguments: a kernel and the number of its
// text. Exits 0 when every claim held.
#include <cstring>
#include <string>

#include "codec/crc32.h"
#include "codec/crc32_combine.h"
#include "cuda/choice.h"
#include "cuda/crc32_runs.h"
#include "cuda/runs.h"
#include "device.h"
#include "edged.h"

/// One text, whatever its own types are named.
struct Text {
  void (*move)(const void* tiles, uint32_t count);
  void (*gather)(const void* tiles, uint32_t count, uint32_t slices, uint32_t slice_bytes);
  void (*gather_warps)(const void* tiles, uint32_t count, uint32_t slices, uint32_t slice_bytes);
  void (*crc32)(const void* runs, uint32_t count, uint32_t pieces, uint32_t piece_bytes,
                const uint32_t* powers, uint32_t* results);
};

#define ORBITKV_TEXT(name)                                                                        \
  Text {                                                                                          \
    [](const void* t, uint32_t n) { name::orbitkv_move(static_cast<const name::Tile*>(t), n); },  \
        [](const void* t, uint32_t n, uint32_t s, uint32_t b) {                                   \
          name::orbitkv_gather(static_cast<const name::Tile*>(t), n, s, b);                       \
        },                                                                                        \
        [](const void* t, uint32_t n, uint32_t s, uint32_t b) {                                   \
          name::orbitkv_gather_warps(static_cast<const name::Tile*>(t), n, s, b);                 \
        },                                                                                        \
        [](const void* a, uint32_t n, uint32_t p, uint32_t b, const uint32_t* w, uint32_t* r) {   \
          name::checksums::orbitkv_crc32(static_cast<const name::checksums::Run*>(a), n, p, b, w, \
                                         r);                                                      \
        },                                                                                        \
  }

#include TEXTS

using namespace orbitkv;
using cuda::Tile;

namespace {

constexpr uint64_t kSizes[] = {1,   2,   3,    7,    8,    15,   16,   17,   31,    33,    127,
                               511, 512, 1023, 2048, 4095, 4096, 4097, 8191, 12289, 16384, 40001};

/// One job of `count` runs at drawn places, cut as the product cuts it, moved by one kernel.
void MoveOnce(const std::string& kernel, const Text& text, uint64_t seed) {
  std::mt19937_64 draw(seed);
  const auto below = [&](uint64_t end) { return draw() % end; };
  struct Place {
    uint64_t target, source, bytes;
    bool zero;
  };
  std::vector<Place> places;
  uint64_t target_end = below(40), source_end = below(40);
  for (uint64_t count = 1 + below(90); count > 0; --count) {
    const uint64_t bytes = kSizes[below(std::size(kSizes))];
    // Most runs are apart by a multiple of a wide access, as real ones are.
    if (below(4) != 0) source_end += (target_end - source_end) & (uint64_t{1} << below(5)) - 1;
    places.push_back({target_end, source_end, bytes, below(8) == 0});
    target_end += bytes + below(50);
    source_end += bytes + below(50);
  }
  // No gap behind the last: it ends where the memory does.
  const Place& last = places.back();
  Edged source(last.source + last.bytes), target(last.target + last.bytes);
  for (size_t i = 0; i < source.size(); ++i) source.data()[i] = static_cast<uint8_t>(draw());
  std::memset(target.data(), 0x5a, target.size());
  std::vector<uint8_t> expected(target.data(), target.data() + target.size());
  std::vector<Tile> runs;
  for (const auto& [to, from, bytes, zero] : places) {
    runs.push_back({Address(target.data()) + to, zero ? 0 : Address(source.data()) + from, bytes});
    zero ? (void)std::memset(expected.data() + to, 0, bytes)
         : (void)std::memcpy(expected.data() + to, source.data() + from, bytes);
  }

  const uint32_t grid = 1 + static_cast<uint32_t>(below(4));
  const auto shape = cuda::ShapeOf(runs, cuda::Way::kInside);
  const auto slicing = cuda::SliceFor(shape.bytes, shape.longest, uint64_t{grid} * 16,
                                      below(2) == 0 ? 0 : 512 + below(8192));
  const bool bus = kernel == "move";
  const auto cutting =
      bus ? cuda::CutForBus(below(2) == 0 ? 0 : 512 + below(8192)) : cuda::CutForSlices(slicing);
  cuda::RunCursor cursor(runs);
  while (!cursor.done()) {
    std::vector<Tile> tiles(1 + below(300));
    const uint32_t count = cursor.Cut(cutting, {}, tiles);
    const void* first = tiles.data();
    const uint32_t threads = bus ? 32 * (1 + static_cast<uint32_t>(below(16))) : 512;
    device::Launch(grid, threads, draw(), [&] {
      if (bus)
        text.move(first, count);
      else if (kernel == "gather")
        text.gather(first, count, slicing.slices, slicing.slice_bytes);
      else
        text.gather_warps(first, count, slicing.slices, slicing.slice_bytes);
    });
  }
  for (size_t i = 0; i < target.size(); ++i)
    CLAIM(target.data()[i] == expected[i], "%s, seed %llu, byte %zu", kernel.c_str(),
          static_cast<unsigned long long>(seed), i);
}

void ChecksumOnce(const Text& text, uint64_t seed) {
  std::mt19937_64 draw(seed);
  const auto below = [&](uint64_t end) { return draw() % end; };
  Edged memory(50'000 + below(16));
  for (size_t i = 0; i < memory.size(); ++i) memory.data()[i] = static_cast<uint8_t>(draw());
  std::vector<ChecksumStep> steps;
  uint64_t runs = 0;
  for (uint64_t count = 1 + below(8); count > 0; --count) {
    const uint64_t segment = kSizes[below(std::size(kSizes))];
    const uint64_t stride = segment + (below(2) == 0 ? 0 : below(600));
    const uint64_t bytes = stride * (1 + below(std::max<uint64_t>(50'000 / stride, 1)));
    if (bytes > memory.size()) continue;
    const auto* at = reinterpret_cast<std::byte*>(memory.data()) + below(memory.size() - bytes + 1);
    steps.push_back({at, bytes, segment, stride});
    runs += cuda::RunCount(steps.back());
  }
  std::vector<cuda::Crc32Run> list(runs);
  // How long a piece is hangs of what else there is in the launch.
  cuda::Crc32Runs written(list.data(), runs, below(60'000), 1 + below(16));
  for (size_t i = 0; i < steps.size(); ++i) written.Add(steps[i], static_cast<uint32_t>(i));
  CLAIM(written.count() == runs, "crc32, seed %llu: runs", static_cast<unsigned long long>(seed));
  std::vector<uint32_t> remainders(steps.size());
  device::Launch(1 + static_cast<uint32_t>(below(3)), 256, draw(), [&] {
    text.crc32(list.data(), written.count(), written.pieces(), written.piece_bytes(),
               cuda::GrainPowers().data(), remainders.data());
  });
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto& [at, bytes, segment, stride] = steps[i];
    CLAIM(Crc32FromRemainder(remainders[i], cuda::CoveredBytes(steps[i])) ==
              Crc32Strided(0, at, bytes, segment, stride),
          "crc32, seed %llu, sum %zu", static_cast<unsigned long long>(seed), i);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const std::string kernel = arguments[1];
  const Text& text = kTexts[std::stoul(arguments[2])];
  for (uint64_t seed = 1; seed <= 40; ++seed)
    kernel == "crc32" ? ChecksumOnce(text, seed) : MoveOnce(kernel, text, seed);
  std::puts("every claim held");
}
