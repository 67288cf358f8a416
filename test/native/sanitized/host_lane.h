#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "../claim.h"
#include "base/clock.h"
#include "device/device.h"
#include "memory/pool.h"
#include "port/completion_sink.h"

/// How long a drain may take: nothing that ends is that slow under a sanitizer.
inline constexpr int64_t kPatienceUs = 60'000'000;

/// A stream of the host with a pool, room for results, and where its completions go.
struct HostLane {
  std::shared_ptr<orbitkv::CompletionSink> sink = std::make_shared<orbitkv::CompletionSink>();
  std::shared_ptr<orbitkv::Pool> pool;
  std::vector<uint32_t> results;
  std::unique_ptr<orbitkv::Stream> stream;

  HostLane(uint64_t pool_bytes, size_t result_count)
      : pool(orbitkv::Pool::Open(pool_bytes)),
        results(result_count),
        stream(orbitkv::HostDevice().OpenStream({sink, pool, results})) {}

  std::vector<orbitkv::Completion> Taken() const {
    std::vector<orbitkv::Completion> taken;
    sink->Take(taken);
    return taken;
  }
  void Drain() const { CLAIM(stream->Drain(orbitkv::MonotonicUs() + kPatienceUs)); }
};
