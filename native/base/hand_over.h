#pragma once

#ifdef __SANITIZE_THREAD__
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace orbitkv {

/// Memory that one thread's JavaScript hands to another's goes through rings whose Atomics
/// ThreadSanitizer cannot see, so it would take every such hand-over for a race. In a build for it,
/// whoever enters the addon has therefore seen everything that others did in calls that have ended.
/// Calls that overlap, and the addon's own threads, stay unordered. Empty in every other build.
class HandOver {
 public:
#ifdef __SANITIZE_THREAD__
  HandOver() { __tsan_acquire(&place_); }
  HandOver(const HandOver&) = delete;
  HandOver& operator=(const HandOver&) = delete;
  ~HandOver() { __tsan_release(&place_); }

 private:
  inline static char place_ = 0;
#endif
};

}  // namespace orbitkv
