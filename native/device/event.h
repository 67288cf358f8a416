#pragma once

namespace orbitkv {

/// A mark in a stream. One that was never recorded counts as passed; recording it again moves it.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  virtual ~Event() = default;

  /// True when the stream has passed the last recorded mark.
  virtual bool Passed() const = 0;
  /// Blocks the calling thread until then.
  virtual void Synchronize() const = 0;
};

}  // namespace orbitkv
