#include "addon/lent_buffers.h"

#include <chrono>
#include <thread>

#include "base/clock.h"
#include "memory/engine_memory.h"

namespace orbitkv::addon {

int32_t LentBuffers::Lend(napi_env env, napi_value view, std::byte* memory, uint64_t bytes) {
  Sweep(env);
  auto mapping = Mapping::Lend(memory, bytes);
  napi_ref reference = nullptr;
  napi_create_reference(env, view, 1, &reference);
  lent_.push_back({reference, mapping});
  return EngineMemory::Instance().Add(std::move(mapping));
}

void LentBuffers::Sweep(napi_env env) {
  std::erase_if(lent_, [env](const Lent& lent) {
    if (!lent.mapping.expired()) return false;
    napi_delete_reference(env, lent.reference);
    return true;
  });
}

void LentBuffers::Close(napi_env env, int64_t max_ms) {
  for (const Lent& lent : lent_)
    if (const auto mapping = lent.mapping.lock()) EngineMemory::Instance().Revoke(*mapping);
  const int64_t deadline_us = MonotonicUs() + max_ms * 1000;
  for (Sweep(env); !lent_.empty(); Sweep(env)) {
    if (MonotonicUs() > deadline_us)
      napi_fatal_error("orbitkv", NAPI_AUTO_LENGTH,
                       "A thread ends while copies still use a SharedArrayBuffer that it lent",
                       NAPI_AUTO_LENGTH);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace orbitkv::addon
