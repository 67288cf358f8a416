#include "memory/engine_memory.h"

#include <vector>

#include "addon/device_names.h"
#include "addon/functions.h"
#include "addon/instance.h"
#include "addon/node_api_support.h"
#include "memory/memfd.h"

namespace orbitkv::addon {

napi_value ReportMapping(napi_env env, int32_t number, const Mapping& mapping) {
  napi_value report;
  napi_create_object(env, &report);
  SetNumber(env, report, "mapping", number);
  SetNumber(env, report, "bytes", static_cast<double>(mapping.bytes()));
  SetText(env, report, "device", DeviceName(mapping.device()));
  return report;
}

napi_value CreateSharedMemory(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  uint64_t bytes;
  if (!ReadOffset(env, arguments[0], &bytes))
    return ThrowShape(env, "createMemory", "a number of bytes");
  return Guarded(env, [&] {
    UniqueFd memory = CreateMemory(bytes);
    SealMemory(memory, Sealing::kSize);
    return Int32(env, memory.Release());
  });
}

napi_value ImportMemory(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t fd;
  if (!ReadInt32(env, arguments[0], &fd)) return ThrowShape(env, "importMemory", "a descriptor");
  return Guarded(env, [&] {
    const auto mapping = Mapping::Import(fd);
    return ReportMapping(env, EngineMemory::Instance().Add(mapping), *mapping);
  });
}

napi_value ShareBuffer(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  const auto view = ReadTypedArray(env, arguments[0]);
  if (!view || view->type != napi_uint8_array || !view->shared || view->elements == 0)
    return ThrowShape(env, "shareBuffer", "a Uint8Array over a SharedArrayBuffer");
  auto* memory = static_cast<std::byte*>(view->memory);
  return Guarded(env, [&] {
    const int32_t number = Instance::Of(env).lent.Lend(env, arguments[0], memory, view->elements);
    return ReportMapping(env, number, *EngineMemory::Instance().FindMapping(number));
  });
}

napi_value BorrowMapping(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t number;
  if (!ReadInt32(env, arguments[0], &number)) return ThrowShape(env, "borrowMapping", "a mapping");
  const auto mapping = EngineMemory::Instance().FindMapping(number);
  if (mapping == nullptr) return ThrowErrno(env, ENOENT, "No mapping " + std::to_string(number));
  return Guarded(
      env, [&] { return ReportMapping(env, EngineMemory::Instance().Add(mapping), *mapping); });
}

napi_value MappingView(napi_env env, napi_callback_info call) {
  const Arguments<3> arguments(env, call);
  int32_t number;
  uint64_t offset, bytes;
  if (!ReadInt32(env, arguments[0], &number) || !ReadOffset(env, arguments[1], &offset) ||
      !ReadOffset(env, arguments[2], &bytes))
    return ThrowShape(env, "mappingView", "a mapping, an offset and a number of bytes");
  const auto mapping = EngineMemory::Instance().FindMapping(number);
  if (mapping == nullptr) return ThrowErrno(env, ENOENT, "No mapping " + std::to_string(number));
  if (mapping->device() != kHostDevice)
    return ThrowErrno(env, EOPNOTSUPP, "Cannot view device memory: read it with readMapping");
  if (!mapping->Contains(offset, bytes))
    return ThrowErrno(env, EINVAL, "Cannot view bytes outside mapping " + std::to_string(number));
  return ExternalBytes(env, mapping->base() + offset, bytes, mapping);
}

napi_value ReleaseMapping(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t number;
  if (!ReadInt32(env, arguments[0], &number)) return ThrowShape(env, "releaseMapping", "a mapping");
  EngineMemory::Instance().ReleaseMapping(number);
  Instance::Of(env).lent.Sweep(env);
  return Undefined(env);
}

napi_value MappingsAlive(napi_env env, napi_callback_info) {
  return Int32(env, EngineMemory::Instance().MappingsAlive());
}

napi_value DefineTemplate(napi_env env, napi_callback_info call) {
  const Arguments<3> arguments(env, call);
  const auto items = ReadDoubles(env, arguments[0]);
  const auto granules = ReadDoubles(env, arguments[1]);
  const auto codings = ReadDoubles(env, arguments[2]);
  if (!items || !granules || (!codings && !IsUndefined(env, arguments[2])))
    return ThrowShape(env, "defineTemplate", "two Float64Arrays, or three");
  return Guarded(env, [&] {
    // Copied before they are checked: another thread may still write what JavaScript passed.
    const std::vector<double> own_items(items->begin(), items->end());
    const std::vector<double> own_granules(granules->begin(), granules->end());
    std::vector<double> own_codings;
    if (codings) own_codings.assign(codings->begin(), codings->end());
    if (codings && own_codings.empty() != own_items.empty())
      return ThrowShape(env, "defineTemplate", "a coding for each item");
    return Int32(env,
                 EngineMemory::Instance().DefineTemplate(own_items, own_granules, own_codings));
  });
}

napi_value ReleaseTemplate(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t number;
  if (!ReadInt32(env, arguments[0], &number))
    return ThrowShape(env, "releaseTemplate", "a template");
  EngineMemory::Instance().ReleaseTemplate(number);
  return Undefined(env);
}

}  // namespace orbitkv::addon
