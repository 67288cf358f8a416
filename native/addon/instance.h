#pragma once

#include <node_api.h>

#include <array>
#include <memory>
#include <vector>

#include "addon/lent_buffers.h"
#include "port/port.h"

namespace orbitkv::addon {

/// A port as one thread's JavaScript holds it. Lives until that thread's environment ends, so that
/// calls on a closed port find a record that says so.
struct OpenedPort {
  napi_env env;
  std::unique_ptr<Port> port;
  /// Keep the four SharedArrayBuffers while native code may touch them.
  std::array<napi_ref, 5> memory{};

  explicit OpenedPort(napi_env made_in) : env(made_in) {}
  OpenedPort(const OpenedPort&) = delete;
  OpenedPort& operator=(const OpenedPort&) = delete;
  ~OpenedPort();

  /// Drains at most `max_ms`, then closes; quarantines the port when something is still in flight.
  /// Returns that.
  uint32_t Close(int64_t max_ms);

 private:
  void LetGo();
};

/// What one thread that loaded the addon owns.
struct Instance {
  napi_env env;
  LentBuffers lent;
  std::vector<std::unique_ptr<OpenedPort>> ports;

  /// The instance of this environment; made, with its cleanup hook, at the first call.
  static Instance& Of(napi_env env);
};

}  // namespace orbitkv::addon
