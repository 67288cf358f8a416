// What the host device promises, as one program, so that ThreadSanitizer and AddressSanitizer can
// watch it: sanitizers.test.ts compiles and runs it under each. Exits 0 when every claim held, else
// names the first that did not.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "../claim.h"
#include "base/clock.h"
#include "base/system_error.h"
#include "codec/crc32.h"
#include "device/device.h"
#include "host_lane.h"
#include "memory/engine_memory.h"
#include "memory/memfd.h"

using namespace orbitkv;

namespace {

constexpr uint64_t kSegment = 4000, kPadded = 4096, kStride = 12288, kPages = 64, kItems = 32;
constexpr uint64_t kGranule = kItems * kPadded;

/// Engine memory with one template of one granule: kItems items a page, page after page in each
/// item's own area.
struct Engine {
  int32_t mapping;
  int32_t copy_template;
  std::shared_ptr<Mapping> memory;

  Engine() {
    UniqueFd fd = CreateMemory(kItems * kPages * kStride);
    SealMemory(fd, Sealing::kSize);
    memory = Mapping::Import(fd.get());
    mapping = EngineMemory::Instance().Add(memory);
    std::vector<double> items;
    for (uint64_t i = 0; i < kItems; ++i)
      for (const uint64_t field : {uint64_t(mapping), i * kPages * kStride, kStride, kPages,
                                   i * kPadded, kSegment, kPadded})
        items.push_back(static_cast<double>(field));
    const double granules[] = {0, kItems};
    copy_template = EngineMemory::Instance().DefineTemplate(items, granules);
  }
  std::byte* Segment(uint64_t item, uint64_t page) const {
    return memory->base() + (item * kPages + page) * kStride;
  }
  /// COPY descriptors of whole granules.
  std::vector<double> Copy(uint64_t page, uint64_t pool_offset) const {
    return {static_cast<double>(copy_template),
            0,
            static_cast<double>(page),
            static_cast<double>(pool_offset),
            0,
            kItems,
            0};
  }
};

struct Lane : HostLane {
  Lane() : HostLane(kPages * kGranule, kPages) {}
};

std::byte Pattern(uint64_t item, uint64_t page, uint64_t at) {
  return std::byte((item * 131 + page * 17 + at * 7) & 255);
}

void FillPages(const Engine& engine) {
  for (uint64_t item = 0; item < kItems; ++item)
    for (uint64_t page = 0; page < kPages; ++page)
      for (uint64_t at = 0; at < kStride; ++at)
        engine.Segment(item, page)[at] = Pattern(item, page, at);
}

void CopiesAndChecksumsRunInOrder() {
  Engine engine;
  Lane lane;
  FillPages(engine);
  std::memset(lane.pool->base(), 0xee, lane.pool->bytes());
  for (uint64_t page = 0; page < kPages; ++page) {
    const auto copy = engine.Copy(page, page * kGranule);
    CLAIM(lane.stream->Copy(static_cast<int32_t>(2 * page), CopyDirection::kPagesToPool, copy) ==
          0);
    const double sum[] = {static_cast<double>(page * kGranule), kGranule, kSegment, kPadded};
    CLAIM(lane.stream->Checksum(static_cast<int32_t>(2 * page + 1), sum, page) == 0);
  }
  lane.Drain();
  const auto taken = lane.Taken();
  CLAIM(taken.size() == 2 * kPages);
  for (size_t i = 0; i < taken.size(); ++i)
    CLAIM(taken[i].tag == static_cast<int32_t>(i) && taken[i].result == 0);
  for (uint64_t page = 0; page < kPages; ++page) {
    uint32_t crc = 0;
    for (uint64_t item = 0; item < kItems; ++item) {
      const std::byte* segment = lane.pool->base() + page * kGranule + item * kPadded;
      CLAIM(std::memcmp(segment, engine.Segment(item, page), kSegment) == 0);
      CLAIM(std::all_of(segment + kSegment, segment + kPadded,
                        [](std::byte b) { return b == std::byte{0}; }));
      crc = Crc32With(Crc32Variant::kPortable, crc, segment, kSegment);
    }
    CLAIM(lane.results[page] == crc);
  }
  EngineMemory::Instance().ReleaseMapping(engine.mapping);
}

void EventsOrderTwoStreams() {
  Engine engine;
  Lane saver, loader;
  FillPages(engine);
  // The loader copies what the saver saved, from the saver's pool, into other pages.
  loader.stream.reset();
  loader.stream = HostDevice().OpenStream({loader.sink, saver.pool, {}});
  const auto saved = HostDevice().CreateEvent();
  CLAIM(saved->Passed());
  for (int round = 0; round < 20; ++round) {
    std::vector<double> out, in;
    for (uint64_t page = 0; page < kPages / 2; ++page) {
      std::memset(saver.pool->base() + page * kGranule, 0xcc, kGranule);
      for (const double field : engine.Copy(page, page * kGranule)) out.push_back(field);
      for (const double field : engine.Copy(kPages / 2 + page, page * kGranule))
        in.push_back(field);
    }
    CLAIM(saver.stream->Copy(round, CopyDirection::kPagesToPool, out) == 0);
    CLAIM(saver.stream->Record(*saved) == 0);
    CLAIM(loader.stream->Wait(*saved) == 0);
    CLAIM(loader.stream->Copy(round, CopyDirection::kPoolToPages, in) == 0);
    saved->Synchronize();
    CLAIM(saved->Passed());
    loader.Drain();
    for (uint64_t item = 0; item < kItems; ++item)
      for (uint64_t page = 0; page < kPages / 2; ++page)
        CLAIM(std::memcmp(engine.Segment(item, kPages / 2 + page), engine.Segment(item, page),
                          kSegment) == 0);
  }
  saver.Drain();
  EngineMemory::Instance().ReleaseMapping(engine.mapping);
}

void AReleasedMappingStaysUntilTheLastCopyEnds() {
  Lane lane;
  auto engine = std::make_unique<Engine>();
  FillPages(*engine);
  const std::vector<std::byte> expected(engine->Segment(3, 5), engine->Segment(3, 5) + kSegment);
  const std::weak_ptr<Mapping> mapped = engine->memory;
  for (uint64_t page = 0; page < kPages; ++page)
    CLAIM(lane.stream->Copy(static_cast<int32_t>(page), CopyDirection::kPagesToPool,
                            engine->Copy(page, page * kGranule)) == 0);
  const auto late = engine->Copy(0, 0);
  EngineMemory::Instance().ReleaseMapping(engine->mapping);
  engine.reset();
  CLAIM(lane.stream->Copy(1000, CopyDirection::kPagesToPool, late) == -EINVAL);
  lane.Drain();
  CLAIM(lane.Taken().size() == kPages);
  CLAIM(mapped.expired() && EngineMemory::Instance().MappingsAlive() == 0);
  CLAIM(std::memcmp(lane.pool->base() + 5 * kGranule + 3 * kPadded, expected.data(), kSegment) ==
        0);
}

void CanceledJobsReportAndTouchNothing() {
  Engine engine;
  Lane lane;
  std::vector<double> all;
  for (uint64_t page = 0; page < kPages; ++page)
    for (const double field : engine.Copy(page, page * kGranule)) all.push_back(field);
  const double sum[] = {0, kGranule * kPages, kSegment, kPadded};
  lane.results[0] = 0xfeedbeef;
  for (int32_t tag = 0; tag < 100; ++tag)
    CLAIM(lane.stream->Copy(tag, CopyDirection::kPagesToPool, all) == 0);
  CLAIM(lane.stream->Checksum(100, sum, 0) == 0);
  lane.stream->Cancel();
  lane.stream->Detach();
  lane.Drain();
  const auto taken = lane.Taken();
  CLAIM(taken.size() == 101 && taken[100].result == -ECANCELED && lane.results[0] == 0xfeedbeef);
  CLAIM(std::count_if(taken.begin(), taken.end(),
                      [](const Completion& c) { return c.result == -ECANCELED; }) > 50);
  CLAIM(lane.stream->Copy(101, CopyDirection::kPagesToPool, engine.Copy(0, 0)) == 0);
  lane.Drain();
  CLAIM(lane.Taken().at(0).result == 0);
  EngineMemory::Instance().ReleaseMapping(engine.mapping);
}

/// Sessions come and go on other threads while copies run: the registry is one for the process.
void ManyThreadsShareTheRegistry() {
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([] {
      Lane lane;
      for (int32_t round = 0; round < 12; ++round) {
        Engine engine;
        CLAIM(lane.stream->Copy(round, CopyDirection::kPagesToPool, engine.Copy(1, 0)) == 0);
        CLAIM(lane.stream->Copy(round, CopyDirection::kPoolToPages, engine.Copy(2, 0)) == 0);
        EngineMemory::Instance().ReleaseMapping(engine.mapping);
      }
      lane.Drain();
      CLAIM(lane.Taken().size() == 24);
    });
  }
  for (auto& thread : threads) thread.join();
  CLAIM(EngineMemory::Instance().MappingsAlive() == 0);
}

}  // namespace

int main() {
  CopiesAndChecksumsRunInOrder();
  EventsOrderTwoStreams();
  AReleasedMappingStaysUntilTheLastCopyEnds();
  CanceledJobsReportAndTouchNothing();
  ManyThreadsShareTheRegistry();
  std::puts("every claim held");
  return 0;
}
