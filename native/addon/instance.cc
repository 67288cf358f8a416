#include "addon/instance.h"

#include <mutex>

namespace orbitkv::addon {

namespace {

// What a device still works on when a thread's environment ends is waited for this long.
constexpr int64_t kCleanupMs = 5000;

/// Ports whose device never answered. Never freed: the device may still write their memory.
void Quarantine(std::unique_ptr<Port> port) {
  static std::mutex& mutex = *std::make_unique<std::mutex>().release();
  static auto& ports = *std::make_unique<std::vector<std::unique_ptr<Port>>>().release();
  const std::lock_guard lock(mutex);
  ports.push_back(std::move(port));
}

/// On the environment's own thread, JavaScript stopped: the only one that may enter its rings.
void CleanUp(void* hint) {
  auto& instance = *static_cast<Instance*>(hint);
  for (const auto& opened : instance.ports) opened->Close(kCleanupMs);
  // After the ports: their peers have seen the end of the sessions that named the buffers.
  instance.lent.Close(instance.env, kCleanupMs);
}

void Destroy(napi_env, void* instance, void*) {
  const std::unique_ptr<Instance> owned(static_cast<Instance*>(instance));
}

}  // namespace

/// One that was refused while it opened; any other was closed before.
OpenedPort::~OpenedPort() {
  port.reset();
  LetGo();
}

void OpenedPort::LetGo() {
  for (napi_ref& reference : memory) {
    if (reference != nullptr) napi_delete_reference(env, reference);
    reference = nullptr;
  }
}

uint32_t OpenedPort::Close(int64_t max_ms) {
  if (port == nullptr) return 0;
  port->Cancel();
  port->DropCompletions();
  const uint32_t left = port->Drain(max_ms);
  if (left > 0) {
    port->Detach();
    Quarantine(std::move(port));
  } else {
    port.reset();
  }
  LetGo();
  return left;
}

Instance& Instance::Of(napi_env env) {
  void* found = nullptr;
  napi_get_instance_data(env, &found);
  if (found != nullptr) return *static_cast<Instance*>(found);
  auto* made = std::make_unique<Instance>().release();
  made->env = env;
  napi_set_instance_data(env, made, Destroy, nullptr);
  napi_add_env_cleanup_hook(env, CleanUp, made);
  return *made;
}

}  // namespace orbitkv::addon
