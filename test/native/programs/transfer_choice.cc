// Which backend carries a job and how a kernel's job is cut, held against a naive model, as one
// program: transfer-choice.test.ts compiles and runs it. The same property is asked of twins, each
// broken in one place, and must find every one. Exits 0 when all of it held.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "cuda/choice.h"
#include "cuda/runs.h"

using namespace orbitkv;
using namespace orbitkv::cuda;

namespace {

using Runs = std::vector<Tile>;
using Random = std::mt19937_64;

constexpr uint64_t kKiB = 1 << 10, kMiB = 1 << 20;

/// What is held against the model: the product, or a twin of it.
struct Subject {
  std::function<Transfer(Transfer, const Shape&, bool)> choose = Choose;
  std::function<Slicing(uint64_t, uint64_t, uint64_t, uint64_t)> slice = SliceFor;
  /// All tiles of a job, handed out `rooms[i]` at most at the i-th time, again and again.
  std::function<Runs(const Runs&, const Cutting&, const Shift&, const std::vector<size_t>& rooms)>
      cut;
};

Runs CutAll(const Runs& runs, const Cutting& cutting, const Shift& shift,
            const std::vector<size_t>& rooms) {
  RunCursor cursor(runs);
  Runs all;
  for (size_t turn = 0; !cursor.done(); ++turn) {
    Runs tiles(rooms[turn % rooms.size()]);
    const uint32_t count = cursor.Cut(cutting, shift, tiles);
    all.insert(all.end(), tiles.begin(), tiles.begin() + count);
    if (count == 0) break;
  }
  return all;
}

// ---- the choice

/// The measured table as docs/gpu-results.md has it, in whole words.
Transfer ModelChoice(Transfer asked, const Shape& shape, bool kernels) {
  if (!kernels) return Transfer::kDirect;
  if (asked != Transfer::kAuto) return asked;
  const bool inside = shape.way == Way::kInside;
  if (shape.runs == 0) return Transfer::kDirect;
  if (inside && shape.runs == 1) return Transfer::kDirect;
  if (!inside && shape.runs <= 2) return Transfer::kDirect;
  const auto mean = static_cast<long double>(shape.bytes) / static_cast<long double>(shape.runs);
  return mean >= static_cast<long double>(inside ? 16 * kMiB : kMiB) ? Transfer::kDirect
                                                                     : Transfer::kKernel;
}

std::string ChoiceDiffers(const Subject& subject, Random& draw) {
  const auto below = [&](uint64_t end) { return draw() % end; };
  for (int i = 0; i < 20'000; ++i) {
    const Way way = static_cast<Way>(below(3));
    const uint64_t runs = below(3) == 0 ? below(4) : 1 + below(30'000);
    const uint64_t edge = way == Way::kInside ? 16 * kMiB : kMiB;
    // Around the edge, to the byte, and anywhere.
    const uint64_t bytes =
        below(2) == 0 ? runs * edge + below(3) - (runs > 0 ? 1 : 0) : runs * (1 + below(32 * kMiB));
    const Shape shape{way, runs, bytes, runs == 0 ? 0 : bytes / runs + below(64 * kMiB), false};
    const auto asked = static_cast<Transfer>(below(3));
    const bool kernels = below(4) != 0;
    if (subject.choose(asked, shape, kernels) != ModelChoice(asked, shape, kernels))
      return "the choice for " + std::to_string(runs) + " runs of " + std::to_string(bytes);
  }
  return "";
}

// ---- slices

std::string SlicesDiffer(const Subject& subject, Random& draw) {
  const auto below = [&](uint64_t end) { return draw() % end; };
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t bytes = 1 + below(uint64_t{1} << below(31)), warps = below(6'000);
    const uint64_t longest = 1 + below(bytes), fixed = below(2) == 0 ? 0 : 512 + below(kMiB);
    const auto [slices, each] = subject.slice(bytes, longest, warps, fixed);
    const std::string what = std::to_string(bytes) + " bytes for " + std::to_string(warps);
    if (slices != 1 && slices != 2 && slices != 4) return "the number of slices of " + what;
    if (each % 16 != 0 || each == 0) return "slices that split a wide access of " + what;
    if (fixed != 0 && (each < fixed || each >= fixed + 16)) return "a slice that was asked for";
    if (fixed == 0 && (each < 2 * kKiB || each > 16 * kKiB)) return "a slice out of bounds";
    // Everybody has something to do, and nobody more than a slice, where slices can be that large.
    if (fixed == 0 && each < 16 * kKiB && each * std::max<uint64_t>(warps, 1) < bytes)
      return "a slice too small for " + what;
    if (fixed == 0 && each > 2 * kKiB && (each - kKiB) * std::max<uint64_t>(warps, 1) >= bytes)
      return "a slice too large for " + what;
    // No slice of the longest run is empty while half as many would hold it.
    if (slices > 1 && longest <= uint64_t{slices} / 2 * each) return "slices for nothing";
    if (slices < 4 && longest > uint64_t{slices} * each) return "a run that could be shared";
  }
  return "";
}

// ---- tiles

std::string TilesDiffer(const Subject& subject, Random& draw) {
  const auto below = [&](uint64_t end) { return draw() % end; };
  for (int i = 0; i < 400; ++i) {
    // Runs one behind the other in the target; sources anywhere, each with room of its own.
    Runs runs;
    const uint64_t target = 1 + below(1 << 20);
    uint64_t end = target, source = uint64_t{1} << 40;
    for (uint64_t count = below(20); count > 0; --count) {
      const uint64_t bytes = 1 + below(uint64_t{1} << (1 + below(16)));
      runs.push_back({end, below(6) == 0 ? 0 : source, bytes});
      end += bytes;
      source += bytes + below(100);
    }
    const Shape shape = ShapeOf(runs, Way::kInside);
    const uint64_t asked = below(2) == 0 ? 0 : 512 + below(40'000);
    const bool inside = below(2) == 0;
    const Slicing slicing = SliceFor(shape.bytes, shape.longest, 1 + below(64), asked);
    const Cutting cutting = inside ? CutForSlices(slicing) : CutForBus(asked);
    const Shift shift{below(2) * 4096, below(2) * 8192};
    std::vector<size_t> rooms(1 + below(4));
    for (size_t& room : rooms) room = 1 + below(9);
    const Runs tiles = subject.cut(runs, cutting, shift, rooms);

    // Byte by byte: where each byte of the target comes from.
    std::vector<uint64_t> from(end - target, 0), cut(end - target, 0), times(end - target, 0);
    for (const auto& [to, at, bytes] : runs)
      for (uint64_t b = 0; b < bytes; ++b) from[to - target + b] = at == 0 ? 0 : at + b;
    for (const auto& [to, at, bytes] : tiles) {
      if (bytes == 0) return "an empty tile";
      if (bytes > cutting.last_bytes_max) return "a tile beyond its bound";
      if (inside && bytes > uint64_t{slicing.slices} * slicing.slice_bytes)
        return "a tile beyond its slices";
      for (uint64_t b = 0; b < bytes; ++b) {
        const uint64_t place = to - shift.target - target + b;
        if (place >= times.size()) return "a byte outside every run";
        ++times[place];
        cut[place] = at == 0 ? 0 : at - shift.source + b;
      }
    }
    if (std::any_of(times.begin(), times.end(), [](uint64_t n) { return n != 1; }))
      return "a byte that is not moved once";
    if (cut != from) return "a byte from elsewhere";
    // No more tiles than needed: what is left of a run is one tile as soon as it may be.
    size_t needed = 0;
    for (const Tile& run : runs) {
      uint64_t left = run.bytes;
      for (; left > cutting.last_bytes_max; left -= cutting.tile_bytes) ++needed;
      ++needed;
    }
    if (tiles.size() != needed) return "more tiles than needed";
  }
  return "";
}

std::string Differs(const Subject& subject) {
  Random draw(5);
  for (const auto property : {ChoiceDiffers, SlicesDiffer, TilesDiffer})
    if (std::string found = property(subject, draw); !found.empty()) return found;
  return "";
}

// ---- the product at the figures that were measured

struct Measured {
  const char* what;
  Way way;
  uint64_t runs, run_bytes;
  Transfer best;
};
constexpr Measured kMeasured[] = {
    {"108 MiB of 4 KiB to the device", Way::kToDevice, 27'648, 4 * kKiB, Transfer::kKernel},
    {"108 MiB of 256 KiB to the device", Way::kToDevice, 432, 256 * kKiB, Transfer::kKernel},
    {"108 MiB of 1 MiB to the device", Way::kToDevice, 108, kMiB, Transfer::kDirect},
    {"4 MiB in one to the device", Way::kToDevice, 1, 4 * kMiB, Transfer::kDirect},
    {"one page from the device", Way::kFromDevice, 1, 4 * kKiB, Transfer::kDirect},
    {"12 pages from the device", Way::kFromDevice, 12, 4 * kKiB, Transfer::kKernel},
    {"a slot of 4 KiB inside", Way::kInside, 1024, 4 * kKiB, Transfer::kKernel},
    {"64 MiB of 256 KiB inside", Way::kInside, 256, 256 * kKiB, Transfer::kKernel},
    {"64 MiB in one inside", Way::kInside, 1, 64 * kMiB, Transfer::kDirect},
};

// ---- twins

Subject Product() { return {Choose, SliceFor, CutAll}; }

std::vector<std::pair<const char*, Subject>> Twins() {
  std::vector<std::pair<const char*, Subject>> twins;
  const auto add = [&](const char* what, auto&& spoil) {
    Subject twin = Product();
    spoil(twin);
    twins.emplace_back(what, std::move(twin));
  };
  add("the longest run decides", [](Subject& s) {
    s.choose = [](Transfer asked, Shape shape, bool kernels) {
      shape.bytes = shape.longest * shape.runs;
      return Choose(asked, shape, kernels);
    };
  });
  add("kernels that are not there are asked for", [](Subject& s) {
    s.choose = [](Transfer asked, const Shape& shape, bool) { return Choose(asked, shape, true); };
  });
  add("the edge belongs to the kernel", [](Subject& s) {
    s.choose = [](Transfer asked, Shape shape, bool kernels) {
      if (shape.bytes > 0) --shape.bytes;
      return Choose(asked, shape, kernels);
    };
  });
  add("both directions are inside", [](Subject& s) {
    s.choose = [](Transfer asked, Shape shape, bool kernels) {
      shape.way = Way::kInside;
      return Choose(asked, shape, kernels);
    };
  });
  add("slices as they are asked for", [](Subject& s) {
    s.slice = [](uint64_t bytes, uint64_t longest, uint64_t warps, uint64_t fixed) {
      Slicing slicing = SliceFor(bytes, longest, warps, fixed);
      if (fixed != 0) slicing.slice_bytes = static_cast<uint32_t>(fixed);
      return slicing;
    };
  });
  add("slices without a bound", [](Subject& s) {
    s.slice = [](uint64_t bytes, uint64_t longest, uint64_t warps, uint64_t fixed) {
      return SliceFor(bytes, longest, warps,
                      fixed != 0 ? fixed : bytes / std::max<uint64_t>(warps, 1) + 1);
    };
  });
  add("always four slices", [](Subject& s) {
    s.slice = [](uint64_t bytes, uint64_t longest, uint64_t warps, uint64_t fixed) {
      return Slicing{4, SliceFor(bytes, longest, warps, fixed).slice_bytes};
    };
  });
  add("a rest that is never joined", [](Subject& s) {
    s.cut = [](const Runs& runs, Cutting cutting, const Shift& shift, const auto& rooms) {
      cutting.last_bytes_max = cutting.tile_bytes;
      return CutAll(runs, cutting, shift, rooms);
    };
  });
  add("zeros that are copied from the shift", [](Subject& s) {
    s.cut = [](const Runs& runs, const Cutting& cutting, const Shift& shift, const auto& rooms) {
      Runs tiles = CutAll(runs, cutting, shift, rooms);
      for (Tile& tile : tiles)
        if (tile.source == 0) tile.source = shift.source;
      return tiles;
    };
  });
  add("a tile lost where the room ends", [](Subject& s) {
    s.cut = [](const Runs& runs, const Cutting& cutting, const Shift& shift, const auto& rooms) {
      Runs tiles = CutAll(runs, cutting, shift, rooms);
      if (tiles.size() > rooms[0]) tiles.erase(tiles.begin() + static_cast<long>(rooms[0]));
      return tiles;
    };
  });
  add("a run that goes on where the last one was cut", [](Subject& s) {
    s.cut = [](const Runs& runs, const Cutting& cutting, const Shift& shift, const auto& rooms) {
      Runs tiles = CutAll(runs, cutting, shift, rooms);
      for (size_t i = 1; i < tiles.size(); ++i)
        if (tiles[i].source != 0 && tiles[i].bytes < tiles[i - 1].bytes)
          tiles[i].source = tiles[i - 1].source + tiles[i - 1].bytes;
      return tiles;
    };
  });
  add("tiles of more than their slices hold", [](Subject& s) {
    s.cut = [](const Runs& runs, Cutting cutting, const Shift& shift, const auto& rooms) {
      cutting.last_bytes_max += 16;
      return CutAll(runs, cutting, shift, rooms);
    };
  });
  return twins;
}

}  // namespace

int main() {
  if (const std::string found = Differs(Product()); !found.empty()) {
    std::printf("the product differs from the model: %s\n", found.c_str());
    return 1;
  }
  for (const auto& [what, way, runs, bytes, best] : kMeasured) {
    if (Choose(Transfer::kAuto, {way, runs, runs * bytes, bytes, false}, true) == best) continue;
    std::printf("not what was measured: %s\n", what);
    return 1;
  }
  for (const auto& [what, twin] : Twins()) {
    if (!Differs(twin).empty()) continue;
    std::printf("nobody noticed: %s\n", what);
    return 1;
  }
  std::puts("every claim held");
}
