#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace orbitkv {

/// Keeps a thing until the process ends, and does not end it then: memory that a device or a driver
/// may still touch. Where there is no memory even for this, the process ends.
inline void KeepForEver(std::shared_ptr<const void> thing) noexcept {
  static std::mutex& mutex = *std::make_unique<std::mutex>().release();
  static auto& kept = *std::make_unique<std::vector<std::shared_ptr<const void>>>().release();
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(thing));
}

}  // namespace orbitkv
