#include "testing/faults.h"

#include <array>
#include <atomic>

namespace orbitkv::testing {
namespace {

struct Counter {
  std::atomic<bool> armed{false};
  std::atomic<bool> sticky{false};
  std::atomic<uint64_t> kth{0};
  std::atomic<int> error{0};
  std::atomic<uint64_t> seen{0};
  std::atomic<uint64_t> failed{0};
};

std::array<Counter, static_cast<size_t>(Fault::kCount)> counters;
thread_local int quiet = 0;

Counter& Of(Fault fault) { return counters[static_cast<size_t>(fault)]; }

}  // namespace

bool Fails(Fault fault) {
  Counter& counter = Of(fault);
  if (quiet > 0 || !counter.armed.load(std::memory_order_acquire)) return false;
  const uint64_t number = counter.seen.fetch_add(1) + 1;
  const uint64_t kth = counter.kth.load();
  const bool fails = counter.sticky.load() ? number >= kth : number == kth;
  if (fails) counter.failed.fetch_add(1);
  return fails;
}

int FaultError(Fault fault) { return Of(fault).error.load(); }

void Arm(Fault fault, uint64_t kth, bool sticky, int error) {
  Counter& counter = Of(fault);
  counter.armed.store(false);
  counter.sticky.store(sticky);
  counter.kth.store(kth);
  counter.error.store(error);
  counter.seen.store(0);
  counter.failed.store(0);
  counter.armed.store(true, std::memory_order_release);
}

void Disarm(Fault fault) { Of(fault).armed.store(false); }

FaultCounts Counts(Fault fault) { return {Of(fault).seen.load(), Of(fault).failed.load()}; }

Quiet::Quiet() { ++quiet; }
Quiet::~Quiet() { --quiet; }

}  // namespace orbitkv::testing
