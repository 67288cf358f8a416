// What a CUDA stream promises beyond its completions, over the twin of the driver, as one program:
// cuda-stream.test.ts compiles and runs it. Its only argument is the file that tells the twin its
// faults. Exits 0 when every claim held, else names the first that did not.
#include "cuda/cuda_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "../claim.h"
#include "base/clock.h"
#include "codec/crc32.h"
#include "cuda/devices.h"
#include "memory/engine_memory.h"
#include "memory/pool.h"

using namespace orbitkv;

namespace {

constexpr int64_t kPatienceUs = 60'000'000;
constexpr uint64_t kBytes = 4 << 20;

/// While set, this thread gets no memory.
thread_local bool no_memory = false;
std::atomic<int> refused{0};

int faults_file = -1;

/// As cudaFaults() of test/support/shims.ts.
void Faults(const std::string& faults) {
  static uint8_t slot = 0;
  slot = static_cast<uint8_t>(slot % 15 + 1);
  char text[256] = {};
  std::memcpy(text, faults.data(), faults.size());
  CLAIM(pwrite(faults_file, text, sizeof text, slot * 256) == sizeof text);
  CLAIM(pwrite(faults_file, &slot, 1, 0) == 1);
}

/// A stream over a pool of its own, and device memory.
struct Bench {
  std::shared_ptr<CompletionSink> sink = std::make_shared<CompletionSink>();
  std::shared_ptr<Pool> pool = Pool::Open(kBytes);
  std::vector<uint32_t> results = std::vector<uint32_t>(64);
  std::vector<Completion> taken;
  std::shared_ptr<Mapping> mapping;
  int32_t number = 0;
  std::unique_ptr<Stream> stream;

  Bench() {
    Device& device = cuda::OpenDevice(0);
    mapping = cuda::AllocateMemory(cuda::DeviceAt(0).uuid(), kBytes);
    number = EngineMemory::Instance().Add(mapping);
    stream = device.OpenStream({sink, pool, results}, {});
    taken.reserve(8192);
  }
  ~Bench() { EngineMemory::Instance().ReleaseMapping(number); }

  double name() const { return static_cast<double>(number); }
  int Move(int32_t tag, uint64_t target, uint64_t source, uint64_t bytes) {
    const double list[] = {name(), static_cast<double>(target), name(), static_cast<double>(source),
                           static_cast<double>(bytes)};
    return stream->Move(tag, list);
  }
  /// Two runs that do not adjoin: by a kernel, which faults can hold.
  int MoveTwo(int32_t tag) {
    const double list[] = {name(), 0,   name(), kBytes / 2,        64,
                           name(), 128, name(), kBytes / 2 + 4096, 64};
    return stream->Move(tag, list);
  }
  size_t Ended() {
    sink->Take(taken);
    return taken.size();
  }
  void Await(size_t count) {
    const int64_t deadline_us = MonotonicUs() + kPatienceUs;
    while (stream->in_flight() > 0 && MonotonicUs() < deadline_us) stream->Poll();
    CLAIM(Ended() == count);
  }
};

void PollingNeedsNoMemory() {
  Bench bench;
  Faults("hang");
  const double sum[] = {bench.name(), 0, 65'536, 65'536, 65'536};
  int accepted = 0;
  for (; accepted < 300; ++accepted)
    CLAIM((accepted % 3 == 0 ? bench.stream->ChecksumMapped(accepted, sum, 5)
                             : bench.MoveTwo(accepted)) == 0);
  no_memory = true;
  Faults("");
  const int64_t deadline_us = MonotonicUs() + kPatienceUs;
  while (bench.stream->in_flight() > 0 && MonotonicUs() < deadline_us) {
    bench.stream->WakeAtEnds();
    bench.stream->Poll();
  }
  no_memory = false;
  CLAIM(refused == 0);
  bench.Await(static_cast<size_t>(accepted));
  for (int i = 0; i < accepted; ++i)
    CLAIM(bench.taken[static_cast<size_t>(i)].tag == i &&
          bench.taken[static_cast<size_t>(i)].result == 0);
  CLAIM(bench.results[5] == Crc32Strided(0, bench.mapping->base(), 65'536, 65'536, 65'536));
}

void WhatIsRefusedForMemoryLeavesNothing() {
  Bench bench;
  no_memory = true;
  CLAIM(bench.MoveTwo(1) == -ENOMEM);
  no_memory = false;
  CLAIM(refused.exchange(0) > 0 && bench.stream->in_flight() == 0);
  CLAIM(bench.MoveTwo(2) == 0);
  bench.Await(1);
  CLAIM(bench.taken[0].tag == 2 && bench.taken[0].result == 0);
}

/// What was expected of jobs that ended early is not expected any more.
void TheEndOfAJobIsExpectedFromItsBeginning() {
  Bench bench;
  Faults("hang");
  for (int32_t tag = 0; tag < 4000; ++tag) CLAIM(bench.MoveTwo(tag) == 0);
  bench.stream->Cancel();
  Faults("");
  bench.Await(4000);
  const int64_t before_us = MonotonicUs();
  CLAIM(bench.MoveTwo(9) == 0);
  const int64_t after_us = MonotonicUs(), expected_us = bench.stream->NextEndUs();
  // The fixed cost of a job, for so few bytes.
  CLAIM(before_us < expected_us && expected_us <= after_us + 20);
  bench.Await(4001);
  CLAIM(bench.stream->NextEndUs() == Stream::kNever);
}

void EventsOrderStreams() {
  Bench first, second;
  const auto event = cuda::OpenDevice(0).CreateEvent();
  CLAIM(event->Passed());
  Faults("hang");
  CLAIM(first.MoveTwo(1) == 0 && first.stream->Record(*event) == 0);
  CLAIM(second.stream->Wait(*event) == 0 && second.Move(2, 0, 4096, 64) == 0);
  for (int i = 0; i < 100; ++i) {
    second.stream->Poll();
    CLAIM(!event->Passed());
  }
  CLAIM(second.Ended() == 0 && second.stream->in_flight() == 2);
  CLAIM(second.stream->NextEndUs() == Stream::kNever);
  Faults("");
  event->Synchronize();
  CLAIM(first.Ended() == 1);
  second.Await(1);
  // An event without memory keeps the mark that it had.
  no_memory = true;
  CLAIM(first.stream->Record(*event) == -ENOMEM);
  no_memory = false;
  refused = 0;
  CLAIM(event->Passed());
}

void ChecksumsOfThePoolGoOnWhereTheyWere() {
  Bench bench;
  for (uint64_t i = 0; i < kBytes; ++i)
    bench.pool->base()[i] = static_cast<std::byte>(i * 31 + (i >> 8) * 7);
  struct Sum {
    double offset, bytes, segment, stride;
  };
  const Sum sums[] = {{3, (3 << 20) + 5, (3 << 20) + 5, (3 << 20) + 5},
                      {0, 4096 * 700, 4000, 4096},
                      {7, 2 * 1'500'000, 1'400'001, 1'500'000}};
  std::vector<double> list;
  for (const auto& [offset, bytes, segment, stride] : sums)
    list.insert(list.end(), {offset, bytes, segment, stride});
  CLAIM(bench.stream->Checksum(1, list, 0) == 0);
  size_t polls = 0;
  for (; bench.stream->in_flight() > 0; ++polls) bench.stream->Poll();
  CLAIM(polls >= 5);  // a MiB each, of eight and a half
  for (size_t i = 0; i < std::size(sums); ++i) {
    const auto& [offset, bytes, segment, stride] = sums[i];
    CLAIM(bench.results[i] == Crc32Strided(0, bench.pool->base() + static_cast<uint64_t>(offset),
                                           static_cast<uint64_t>(bytes),
                                           static_cast<uint64_t>(segment),
                                           static_cast<uint64_t>(stride)));
  }
}

}  // namespace

void* operator new(size_t bytes) {
  if (no_memory) {
    ++refused;
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

int main(int count, char** arguments) {
  if (count != 2) return 2;
  faults_file = open(arguments[1], O_RDWR | O_CLOEXEC);
  CLAIM(faults_file >= 0);
  PollingNeedsNoMemory();
  WhatIsRefusedForMemoryLeavesNothing();
  TheEndOfAJobIsExpectedFromItsBeginning();
  EventsOrderStreams();
  ChecksumsOfThePoolGoOnWhereTheyWere();
  std::puts("every claim held");
}
