#pragma once

#include <memory>

#include "device/event.h"
#include "device/stream.h"

namespace orbitkv {

/// Where engine pages live, and what copies between them and the pool. One object a device for the
/// whole process.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  /// Throws SystemError.
  virtual std::unique_ptr<Stream> OpenStream(StreamContext context,
                                             const StreamOptions& options = {}) = 0;
  virtual std::unique_ptr<Event> CreateEvent() = 0;
};

/// Engine pages in shared memory; a stream is a queue with a thread of its own.
Device& HostDevice();

}  // namespace orbitkv
