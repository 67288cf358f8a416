#pragma once

#include <node_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "memory/mapping.h"

namespace orbitkv::addon {

/// SharedArrayBuffers of one thread's JavaScript that native threads read and write as engine
/// pages. A strong reference keeps each in place until nobody holds its mapping any more; only this
/// thread may drop it.
class LentBuffers {
 public:
  /// `view` is what JavaScript passed, `memory` what it shows. Returns the mapping's number.
  int32_t Lend(napi_env env, napi_value view, std::byte* memory, uint64_t bytes);
  /// Drops the references of buffers that nobody holds any more.
  void Sweep(napi_env env);
  /// The references end with the environment, and with them the memory: revokes every name, then
  /// waits for the copies that are queued or run. Ends the process when they do not end within
  /// `max_ms`: they would write into freed memory.
  void Close(napi_env env, int64_t max_ms);

 private:
  struct Lent {
    napi_ref reference;
    std::weak_ptr<Mapping> mapping;
  };
  std::vector<Lent> lent_;
};

}  // namespace orbitkv::addon
