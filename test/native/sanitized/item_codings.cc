// What codings on the processor promise, as one program, so that sanitizers can watch it: buffers
// are exactly as long as said, so that a byte beside them is seen. sanitizers.test.ts compiles and
// runs it under each. Exits 0 when every claim held, else names the first that did not.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "../claim.h"
#include "base/clock.h"
#include "base/system_error.h"
#include "codec/crc32.h"
#include "codec/item_coding.h"
#include "device/device.h"
#include "device/jobs.h"
#include "host_lane.h"
#include "memory/engine_memory.h"
#include "memory/memfd.h"

using namespace orbitkv;

namespace {

using Bytes = std::vector<std::byte>;
thread_local std::mt19937 noise(20261130);

uint16_t Bf16(float value) {
  return static_cast<uint16_t>((std::bit_cast<uint32_t>(value) + 0x8000) >> 16);
}

/// `count` values that every format codes: N(0, 1), or a few special vectors' worth.
Bytes Values(uint64_t count, NarrowFloat scalar) {
  std::normal_distribution<float> normal;
  Bytes bytes(2 * count);
  for (uint64_t i = 0; i < count; ++i) {
    const float value = i / 64 % 5 == 0 ? 0 : normal(noise);
    const uint16_t bits = scalar == NarrowFloat::kBf16 ? Bf16(value) : NarrowToFp16(value);
    std::memcpy(bytes.data() + 2 * i, &bits, 2);
  }
  return bytes;
}

std::vector<TurboquantShape> Shapes() {
  std::vector<TurboquantShape> shapes;
  for (const auto scalar : {NarrowFloat::kBf16, NarrowFloat::kFp16})
    for (const auto role :
         {TurboquantRole::kKeys, TurboquantRole::kValues, TurboquantRole::kPacked})
      for (const uint32_t bits : {3u, 4u})
        for (const uint32_t dim : {32u, 64u, 128u, 256u})
          shapes.push_back({scalar, role, bits, dim, 42 + 1337 * dim});
  return shapes;
}

void VariantsGiveTheSameBytesAndNoByteMore() {
  for (const TurboquantShape& shape : Shapes())
    for (const uint64_t count : {1, 2, 7}) {
      const Bytes values = Values(count * shape.logical_bytes() / 2, shape.scalar);
      std::vector<uint8_t> first(count * shape.stored_bytes()), noisy(first.size());
      for (auto& byte : noisy) byte = static_cast<uint8_t>(noise());
      Bytes first_back, first_noisy;
      bool first_sound = false;
      for (const TurboquantVariant variant : kTurboquantVariants) {
        if (!TurboquantAvailable(variant)) continue;
        std::vector<uint8_t> stored(first.size());
        Bytes back(values.size()), from_noise(values.size());
        CLAIM(TurboquantEncode(variant, shape, values.data(), count, stored.data()));
        CLAIM(TurboquantDecode(variant, shape, stored.data(), count, back.data()));
        const bool sound = TurboquantDecode(variant, shape, noisy.data(), count, from_noise.data());
        if (variant == TurboquantVariant::kPortable) {
          first = stored;
          first_back = back;
          first_noisy = from_noise;
          first_sound = sound;
        }
        CLAIM(stored == first && back == first_back && sound == first_sound);
        CLAIM(!sound || from_noise == first_noisy);
      }
    }
}

/// Every pattern of 16 bits, also those that no encoder takes, at odd addresses.
void AnyBitsAreCodedOrRefused() {
  Bytes all(2 * 65536 + 1);
  for (uint32_t i = 0; i < 65536; ++i) std::memcpy(all.data() + 1 + 2 * i, &i, 2);
  for (const TurboquantShape& shape : Shapes()) {
    const uint64_t count = (all.size() - 1) / shape.logical_bytes();
    std::vector<uint8_t> stored(shape.stored_bytes() + 1);
    Bytes back(shape.logical_bytes() + 1);
    uint64_t coded = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const std::byte* vector = all.data() + 1 + i * shape.logical_bytes();
      if (!TurboquantEncode(TurboquantBest(), shape, vector, 1, stored.data() + 1)) continue;
      ++coded;
      CLAIM(TurboquantDecode(TurboquantBest(), shape, stored.data() + 1, 1, back.data() + 1));
    }
    CLAIM(coded > 0 && coded < count);
  }
}

/// Codings at random: what breaks no rule is stored, and comes back when it was coded.
void AnyCodingIsReadOrRefused() {
  uint64_t taken = 0, coded = 0;
  for (int round = 0; round < 20000; ++round) {
    const double kinds[] = {0, 1, 2, 3, 4, 32, 64, 128, 256, 96, 0.5, -1, 4294967296.0, 1e300};
    double fields[kItemCodingDoubles];
    const bool likely = noise() % 2 == 0;
    for (double& field : fields) field = kinds[noise() % (likely ? 4 : std::size(kinds))];
    if (likely && fields[0] == 2) {
      fields[3] = 3 + noise() % 2;
      fields[4] = kinds[5 + noise() % 4];
    } else if (likely) {
      fields[3] = fields[4] = fields[5] = 0;
    }
    const auto coding = ReadItemCoding(fields);
    if (!coding) continue;
    const uint64_t bytes = noise() % 3 == 0 ? noise() % 9000 : 512 * (noise() % 20);
    if (bytes == 0 || RuleBroken(*coding, bytes) != nullptr) continue;
    ++taken;
    const Bytes item = Values((bytes + 1) / 2, coding->narrow());
    const uint64_t room = 512 * (noise() % 20);
    Bytes pool(room);
    const StoredItem stored = StoreItem(*coding, item.data(), bytes, pool.data(), room);
    CLAIM(stored.bytes <= room && stored.bytes <= bytes);
    CLAIM(stored.crc32 == orbitkv::crc32(0, pool.data(), stored.bytes));
    if (stored.bytes == 0) {
      CLAIM(room < bytes);
    } else if (stored.bytes == bytes) {
      CLAIM(std::memcmp(pool.data(), item.data(), bytes) == 0);
    } else {
      ++coded;
      CLAIM(SavesEnough(stored.bytes, bytes) && stored.bytes == StoredBytes(*coding, bytes));
      pool.resize(stored.bytes);
      Bytes back(bytes);
      CLAIM(DecodeItem(*coding, pool.data(), stored.bytes, back.data(), bytes));
      CLAIM(!DecodeItem(*coding, pool.data(), stored.bytes - 1, back.data(), bytes));
    }
  }
  CLAIM(taken > 500 && coded > 50);
}

/// Engine memory of kPages pages with one coded item each.
constexpr uint64_t kPages = 16, kItem = 48 << 10;

struct Engine {
  int32_t mapping;
  int32_t copy_template;
  std::shared_ptr<Mapping> memory;

  Engine() {
    UniqueFd fd = CreateMemory(kPages * kItem);
    SealMemory(fd, Sealing::kSize);
    memory = Mapping::Import(fd.get());
    mapping = EngineMemory::Instance().Add(memory);
    const double item[] = {double(mapping), 0, kItem, kPages, 0, kItem, kItem};
    const double granules[] = {0, 1};
    const double coding[] = {2, 1, 3, 4, 128, 42};  // turboquant of bf16, packed
    copy_template = EngineMemory::Instance().DefineTemplate(item, granules, coding);
    const Bytes values = Values(kPages * kItem / 2, NarrowFloat::kBf16);
    std::memcpy(memory->base(), values.data(), values.size());
  }
  ~Engine() { EngineMemory::Instance().ReleaseMapping(mapping); }
  std::vector<double> All(uint64_t stored) const {
    std::vector<double> list;
    for (uint64_t page = 0; page < kPages; ++page)
      for (const double field : {double(copy_template), 0.0, double(page), double(page * kItem),
                                 0.0, 1.0, double(stored)})
        list.push_back(field);
    return list;
  }
};

constexpr uint64_t kStored = kItem / 512 * 134;

struct Lane : HostLane {
  Lane() : HostLane(kPages * kItem, 2 * kPages) {}
};

void StreamsCodeInOrderOnManyThreads() {
  std::vector<std::thread> threads;
  Engine shared;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&shared] {
      Lane lane;
      for (int32_t round = 0; round < 3; ++round) {
        CLAIM(lane.stream->Encode(2 * round, shared.All(AlignCoded(kStored)), 0) == 0);
        const double sum[] = {0, kStored, kStored, kStored};
        CLAIM(lane.stream->Checksum(2 * round + 1, sum, 2 * kPages - 1) == 0);
      }
      lane.Drain();
      CLAIM(lane.Taken().size() == 6);
      for (uint64_t page = 0; page < kPages - 1; ++page) {
        CLAIM(lane.results[2 * page] == kStored);
        CLAIM(lane.results[2 * page + 1] ==
              orbitkv::crc32(0, lane.pool->base() + page * kItem, kStored));
      }
      CLAIM(lane.results[2 * kPages - 1] == lane.results[1]);
      Engine own;
      CLAIM(lane.stream->Decode(9, own.All(kStored), 0) == 0);
      lane.Drain();
      for (uint64_t page = 0; page < kPages; ++page) CLAIM(lane.results[page] == 0);
    });
  for (auto& thread : threads) thread.join();
}

void CanceledCodingsReportAndDetachedOnesStaySilent() {
  Engine engine;
  Lane lane;
  std::fill(lane.results.begin(), lane.results.end(), 0xfeedbeef);
  for (int32_t tag = 0; tag < 50; ++tag)
    CLAIM(lane.stream->Encode(tag, engine.All(AlignCoded(kStored)), 0) == 0);
  lane.stream->Detach();
  const std::vector<uint32_t> before = lane.results;
  lane.stream->Cancel();
  lane.Drain();
  CLAIM(lane.results == before);
  const auto taken = lane.Taken();
  CLAIM(taken.size() == 50 && taken[49].result == -ECANCELED);
}

/// Descriptors with fields at random: a list is taken only when a model says that it fits.
void DescriptorsAtRandomNeverLeadOutOfBounds() {
  Engine engine;
  Lane lane;
  const double pool_bytes = static_cast<double>(lane.pool->bytes());
  uint64_t taken = 0;
  for (int round = 0; round < 20000; ++round) {
    const bool encode = noise() % 2 == 0;
    auto one = engine.All(encode ? AlignCoded(kStored) : kStored);
    one.resize(kCopyDoubles);
    for (int change = 0; change < static_cast<int>(noise() % 3); ++change) {
      const double values[] = {0,
                               1,
                               2,
                               512,
                               0.5,
                               -1,
                               15,
                               16,
                               pool_bytes,
                               pool_bytes - 512,
                               9007199254740991.0,
                               1e300,
                               double(kItem),
                               double(kItem - 512)};
      one[noise() % kCopyDoubles] = values[noise() % std::size(values)];
    }
    const double stored = one[6];
    const bool fits = one[0] == engine.copy_template && one[1] == 0 && one[4] == 0 && one[5] == 1 &&
                      one[2] >= 0 && one[2] < kPages && one[2] == std::floor(one[2]) &&
                      one[3] >= 0 && one[3] == std::floor(one[3]) && stored > 0 &&
                      stored == std::floor(stored) && one[3] + stored <= pool_bytes &&
                      (encode ? std::fmod(stored, 512) == 0 : stored < kItem);
    const int answer = encode ? lane.stream->Encode(1, one, 0) : lane.stream->Decode(1, one, 0);
    CLAIM(answer == (fits ? 0 : -EINVAL));
    if (answer == 0) {
      lane.Drain();
      ++taken;
    }
  }
  CLAIM(taken > 1000 && lane.Taken().size() == taken);
}

}  // namespace

int main() {
  VariantsGiveTheSameBytesAndNoByteMore();
  AnyBitsAreCodedOrRefused();
  AnyCodingIsReadOrRefused();
  StreamsCodeInOrderOnManyThreads();
  CanceledCodingsReportAndDetachedOnesStaySilent();
  DescriptorsAtRandomNeverLeadOutOfBounds();
  CLAIM(EngineMemory::Instance().MappingsAlive() == 0);
  std::puts("every claim held");
  return 0;
}
