#pragma once

#include <node_api.h>

#include <cstdint>
#include <optional>
#include <string>

#include "memory/mapping.h"

namespace orbitkv::addon {

/// `DeviceName` in src/shared/base/device-name.ts.
inline std::string DeviceName(int32_t device) {
  return device == kHostDevice ? "host" : "cuda:" + std::to_string(device);
}

/// kHostDevice or the ordinal of a CUDA device; nothing for another text.
inline std::optional<int32_t> ReadDeviceName(const std::string& name) {
  if (name == "host") return kHostDevice;
  constexpr size_t kPrefix = 5;
  if (name.compare(0, kPrefix, "cuda:") != 0 || name.size() == kPrefix ||
      name.size() > kPrefix + 3 || name.find_first_not_of("0123456789", kPrefix) != name.npos)
    return std::nullopt;
  return std::stoi(name.substr(kPrefix));
}

/// MappingReport in src/binding/memory.ts.
napi_value ReportMapping(napi_env env, int32_t number, const Mapping& mapping);

}  // namespace orbitkv::addon
