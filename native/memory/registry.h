#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace orbitkv {

/// Names process-wide things by small integers. One per kind of thing, shared by every thread that
/// loaded the addon, because a worker may end while a disk or a stream still writes what it opened.
/// Whoever has an operation in flight holds the shared_ptr; Remove() only takes the name away.
/// Numbers are never used again, so a stale one finds nothing.
template <class T>
class Registry {
 public:
  Registry() = default;
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  int32_t Add(std::shared_ptr<T> thing) {
    const std::lock_guard lock(mutex_);
    const int32_t number = next_++;
    things_.emplace(number, std::move(thing));
    return number;
  }

  /// Null when nothing has this number (any more).
  std::shared_ptr<T> Find(int32_t number) const {
    const std::lock_guard lock(mutex_);
    const auto found = things_.find(number);
    return found == things_.end() ? nullptr : found->second;
  }

  /// Takes the name away and returns what it named, or null.
  std::shared_ptr<T> Remove(int32_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = things_.find(number);
    if (found == things_.end()) return nullptr;
    auto thing = std::move(found->second);
    things_.erase(found);
    return thing;
  }

  /// Calls `each(thing)` for everything that has a number, under the lock.
  template <class Each>
  void ForEach(Each&& each) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, thing] : things_) each(*thing);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<int32_t, std::shared_ptr<T>> things_;
  int32_t next_ = 1;
};

/// The one registry of a kind. Never destroyed: threads may use it until the process ends.
template <class T>
Registry<T>& RegistryOf() {
  static Registry<T>& registry = *std::make_unique<Registry<T>>().release();
  return registry;
}

}  // namespace orbitkv
