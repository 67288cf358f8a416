// What bench/codec measures: one codec, one direction, one size, on one thread, and memcpy of as
// many bytes right after it. The codecs are the product's own objects.
//
// Reads samples from standard input, one a line: "codec direction backend bytes milliseconds",
// bytes on the 16-bit side. Answers each with "GiB/s of the codec, GiB/s of memcpy", in logical
// bytes, or with "absent" for a backend that this processor lacks.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

#include "codec/crc32.h"
#include "codec/fp8.h"
#include "codec/turboquant.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "codec_rates: %s\n", what.c_str());
  std::exit(1);
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<uint8_t, Free>;

Memory Allocate(size_t bytes) {
  auto* memory = static_cast<uint8_t*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  if (memory == nullptr) Die("no memory");
  std::memset(memory, 0, bytes);
  return Memory(memory);
}

/// GiB/s of `work`, which handles `bytes`, over at least `milliseconds`.
double Rate(const std::function<void()>& work, size_t bytes, int milliseconds) {
  work();
  const size_t burst = std::max<size_t>(1, (size_t{1} << 20) / bytes);
  const auto start = Clock::now();
  const auto end = start + std::chrono::milliseconds(milliseconds);
  size_t rounds = 0;
  auto now = start;
  do {
    for (size_t i = 0; i < burst; ++i) work();
    rounds += burst;
    now = Clock::now();
  } while (now < end);
  const double seconds = std::chrono::duration<double>(now - start).count();
  return static_cast<double>(rounds) * static_cast<double>(bytes) / kGiB / seconds;
}

/// Uniform over the bit patterns in range: every exponent as often as every other.
void FillValues(uint8_t* values, size_t count, orbitkv::Fp8Source source) {
  const uint16_t largest = source == orbitkv::Fp8Source::kBf16 ? 0x43e0 : 0x5f00;
  uint64_t state = 0x9e3779b97f4a7c15ull;
  for (size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const auto random = static_cast<uint32_t>(state >> 32);
    const auto value = static_cast<uint16_t>((random % (largest + 1u)) | (random & 0x8000u));
    std::memcpy(values + 2 * i, &value, sizeof value);
  }
}

/// BF16 values of about N(0, 1): sums of twelve uniform ones.
void FillGaussians(uint8_t* values, size_t count) {
  uint32_t state = 1;
  for (size_t i = 0; i < count; ++i) {
    float sum = -6;
    for (int part = 0; part < 12; ++part) {
      state = state * 1664525u + 1013904223u;
      sum += static_cast<float>(state >> 8) * 0x1p-24f;
    }
    const auto value = static_cast<uint16_t>(std::bit_cast<uint32_t>(sum) >> 16);
    std::memcpy(values + 2 * i, &value, sizeof value);
  }
}

/// The heads of 128 values that "turboquant-k4" and its like name.
orbitkv::TurboquantShape ShapeNamed(const std::string& codec) {
  const std::string kind = codec.substr(std::min<size_t>(codec.size(), 11));
  if (kind.size() != 2 || (kind[0] != 'k' && kind[0] != 'v') || (kind[1] != '3' && kind[1] != '4'))
    Die("no codec " + codec);
  const auto role =
      kind[0] == 'k' ? orbitkv::TurboquantRole::kKeys : orbitkv::TurboquantRole::kValues;
  return {orbitkv::NarrowFloat::kBf16, role, kind[1] == '3' ? 3u : 4u, 128, 1379};
}

template <typename Variant, size_t kCount>
bool Named(const Variant (&variants)[kCount], std::string_view (*name)(Variant) noexcept,
           bool (*available)(Variant) noexcept, const std::string& wanted, Variant* found) {
  for (const Variant variant : variants)
    if (name(variant) == wanted) {
      *found = variant;
      return available(variant);
    }
  Die("no backend " + wanted);
}

volatile uint32_t g_sink;

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string codec, direction, backend;
    size_t bytes = 0;
    int milliseconds = 0;
    if (!(words >> codec >> direction >> backend >> bytes >> milliseconds))
      Die("malformed: " + line);
    const Memory values = Allocate(bytes), copy = Allocate(bytes), codes = Allocate(bytes / 2);
    const size_t count = bytes / 2;
    std::function<void()> work;
    if (codec == "crc32") {
      orbitkv::Crc32Variant variant{};
      if (!Named(orbitkv::kCrc32Variants, orbitkv::Crc32Name, orbitkv::Crc32Available, backend,
                 &variant)) {
        std::cout << "absent" << std::endl;
        continue;
      }
      FillValues(values.get(), count, orbitkv::Fp8Source::kBf16);
      work = [&, variant] { g_sink = orbitkv::Crc32With(variant, 0, values.get(), bytes); };
    } else if (codec.starts_with("turboquant-")) {
      orbitkv::TurboquantVariant variant{};
      if (!Named(orbitkv::kTurboquantVariants, orbitkv::TurboquantName,
                 orbitkv::TurboquantAvailable, backend, &variant)) {
        std::cout << "absent" << std::endl;
        continue;
      }
      const auto shape = ShapeNamed(codec);
      const uint64_t vectors = bytes / shape.logical_bytes();
      FillGaussians(values.get(), count);
      if (!orbitkv::TurboquantEncode(variant, shape, values.get(), vectors, codes.get()))
        Die("a finite vector was refused");
      if (direction == "encode")
        work = [&, variant, shape, vectors] {
          orbitkv::TurboquantEncode(variant, shape, values.get(), vectors, codes.get());
        };
      else
        work = [&, variant, shape, vectors] {
          orbitkv::TurboquantDecode(variant, shape, codes.get(), vectors, values.get());
        };
    } else {
      orbitkv::Fp8Variant variant{};
      if (!Named(orbitkv::kFp8Variants, orbitkv::Fp8Name, orbitkv::Fp8Available, backend,
                 &variant)) {
        std::cout << "absent" << std::endl;
        continue;
      }
      const auto source = codec == "fp8-bf16"   ? orbitkv::Fp8Source::kBf16
                          : codec == "fp8-fp16" ? orbitkv::Fp8Source::kFp16
                                                : (Die("no codec " + codec), orbitkv::Fp8Source{});
      FillValues(values.get(), count, source);
      if (!orbitkv::Fp8Encode(variant, source, values.get(), count, codes.get()))
        Die("a value in range was refused");
      if (direction == "encode")
        work = [&, variant, source] {
          orbitkv::Fp8Encode(variant, source, values.get(), count, codes.get());
        };
      else
        work = [&, variant, source] {
          orbitkv::Fp8Decode(variant, source, codes.get(), count, values.get());
        };
    }
    const double rate = Rate(work, bytes, milliseconds);
    const double control = Rate(
        [&] {
          std::memcpy(copy.get(), values.get(), bytes);
          g_sink = copy.get()[bytes - 1];
        },
        bytes, milliseconds);
    std::cout << rate << ' ' << control << std::endl;
  }
  return 0;
}
