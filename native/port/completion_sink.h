#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "base/unique_fd.h"
#include "memory/registry.h"
#include "port/completion.h"

namespace orbitkv {

/// Where native threads leave completions for one port, and the descriptor that wakes its owner.
/// Thread-safe. Held by shared_ptr: a stream's thread may post after the port has gone, and then
/// nobody reads it.
class CompletionSink {
 public:
  /// Throws SystemError.
  CompletionSink();
  CompletionSink(const CompletionSink&) = delete;
  CompletionSink& operator=(const CompletionSink&) = delete;

  /// From the owner's own thread: makes room for one completion that will be posted. Posting then
  /// allocates nothing: a thread of the addon has nobody to tell that it could not. Throws
  /// std::bad_alloc.
  void Expect();
  /// From any thread, once for each Expect(): queues and wakes the owner if it sleeps.
  void Post(const Completion& completion);
  /// As Post, from the owner's own thread, inside a call on the port: queues only, the owner looks
  /// before it sleeps.
  void PostLocal(const Completion& completion);
  /// Wakes the owner from any thread, also when it is only about to sleep: a wake is never lost.
  void Wake();

  /// Owner: moves what is queued to the end of `out`.
  void Take(std::vector<Completion>& out);
  /// Owner: forgets what is queued.
  void Drop();
  bool empty() const;
  /// Owner: forgets wakes seen so far.
  void ClearWake();
  /// The eventfd, for polling.
  int event_fd() const { return event_.get(); }

 private:
  UniqueFd event_;
  mutable std::mutex mutex_;
  std::vector<Completion> queue_;
  size_t expected_ = 0;
};

/// Port number -> its sink; what wake() and wakeAll() look in.
inline Registry<CompletionSink>& PortSinks() { return RegistryOf<CompletionSink>(); }

}  // namespace orbitkv
