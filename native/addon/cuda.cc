#include <cstring>

#include "addon/device_names.h"
#include "addon/functions.h"
#include "addon/node_api_support.h"
#include "cuda/devices.h"
#include "memory/engine_memory.h"

namespace orbitkv::addon {

namespace {

napi_value Report(napi_env env, const cuda::DeviceReport& device) {
  napi_value object;
  napi_create_object(env, &object);
  SetNumber(env, object, "ordinal", device.ordinal);
  SetText(env, object, "uuid", device.uuid);
  SetText(env, object, "name", device.name);
  SetNumber(env, object, "architecture", device.architecture);
  SetNumber(env, object, "multiprocessors", device.multiprocessors);
  SetNumber(env, object, "memoryBytes", static_cast<double>(device.memory_bytes));
  napi_value failure;
  napi_get_null(env, &failure);
  if (!device.failure.empty()) failure = Text(env, device.failure);
  napi_set_named_property(env, object, "failure", failure);
  return object;
}

napi_value Add(napi_env env, const std::shared_ptr<Mapping>& mapping) {
  return ReportMapping(env, EngineMemory::Instance().Add(mapping), *mapping);
}

/// (mapping, offset, bytes) of readMapping and writeMapping.
struct Range {
  std::shared_ptr<Mapping> mapping;
  uint64_t offset;
  std::span<std::byte> bytes;
};

/// Nothing after it has thrown.
std::optional<Range> ReadRange(napi_env env, const Arguments<3>& arguments, const char* function) {
  int32_t number;
  Range range;
  const auto bytes = ReadBytes(env, arguments[2]);
  if (!ReadInt32(env, arguments[0], &number) || !ReadOffset(env, arguments[1], &range.offset) ||
      !bytes) {
    ThrowShape(env, function, "a mapping, an offset and a Uint8Array");
    return std::nullopt;
  }
  range.bytes = *bytes;
  range.mapping = EngineMemory::Instance().FindMapping(number);
  if (range.mapping == nullptr) {
    ThrowErrno(env, ENOENT, "No mapping " + std::to_string(number));
    return std::nullopt;
  }
  if (!range.mapping->Contains(range.offset, range.bytes.size())) {
    ThrowErrno(env, EINVAL, "Cannot touch bytes outside mapping " + std::to_string(number));
    return std::nullopt;
  }
  return range;
}

}  // namespace

napi_value CudaProbe(napi_env env, napi_callback_info) {
  const cuda::ProbeReport probe = cuda::Probe();
  napi_value object, devices, compiler;
  napi_create_object(env, &object);
  SetBoolean(env, object, "available", probe.available);
  SetText(env, object, "reason", probe.reason);
  SetText(env, object, "library", probe.library);
  SetNumber(env, object, "driverVersion", probe.driver_version);
  napi_create_array(env, &devices);
  for (uint32_t i = 0; i < probe.devices.size(); ++i)
    napi_set_element(env, devices, i, Report(env, probe.devices[i]));
  napi_set_named_property(env, object, "devices", devices);
  napi_create_object(env, &compiler);
  SetBoolean(env, compiler, "available", probe.compiler_available);
  SetText(env, compiler, "reason", probe.compiler_reason);
  SetText(env, compiler, "library", probe.compiler_library);
  SetNumber(env, compiler, "version", probe.compiler_version);
  napi_set_named_property(env, object, "compiler", compiler);
  return object;
}

napi_value CompileKernels(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t architecture;
  if (!ReadInt32(env, arguments[0], &architecture) || architecture < 1)
    return ThrowShape(env, "compileKernels", "an architecture, 90 for 9.0");
  return Guarded(env, [&] {
    const auto kernels = cuda::CompileKernels(architecture);
    napi_value list;
    napi_create_array(env, &list);
    for (uint32_t i = 0; i < kernels.size(); ++i) {
      napi_value kernel;
      napi_create_object(env, &kernel);
      SetText(env, kernel, "name", kernels[i].name);
      SetNumber(env, kernel, "bytes", static_cast<double>(kernels[i].bytes));
      SetBoolean(env, kernel, "cached", kernels[i].cached);
      napi_set_element(env, list, i, kernel);
    }
    return list;
  });
}

napi_value ImportDeviceMemory(napi_env env, napi_callback_info call) {
  const Arguments<4> arguments(env, call);
  const auto uuid = ReadString(env, arguments[0]);
  const auto handle = ReadBytes(env, arguments[1]);
  uint64_t offset, bytes;
  if (!uuid || !handle || handle->size() != cuda::kHandleBytes ||
      !ReadOffset(env, arguments[2], &offset) || !ReadOffset(env, arguments[3], &bytes))
    return ThrowShape(env, "importDeviceMemory", "a UUID, 64 bytes of a handle, an offset, bytes");
  return Guarded(
      env, [&] { return Add(env, cuda::ImportMemory(*uuid, handle->data(), offset, bytes)); });
}

napi_value AdoptDeviceMemory(napi_env env, napi_callback_info call) {
  const Arguments<3> arguments(env, call);
  const auto uuid = ReadString(env, arguments[0]);
  uint64_t address, bytes;
  if (!uuid || !ReadOffset(env, arguments[1], &address) || !ReadOffset(env, arguments[2], &bytes))
    return ThrowShape(env, "adoptDeviceMemory", "a UUID, an address and bytes");
  return Guarded(env, [&] { return Add(env, cuda::AdoptMemory(*uuid, address, bytes)); });
}

napi_value AllocateDeviceMemory(napi_env env, napi_callback_info call) {
  const Arguments<2> arguments(env, call);
  const auto uuid = ReadString(env, arguments[0]);
  uint64_t bytes;
  if (!uuid || !ReadOffset(env, arguments[1], &bytes) || bytes == 0)
    return ThrowShape(env, "allocateDeviceMemory", "a UUID and bytes above 0");
  return Guarded(env, [&] { return Add(env, cuda::AllocateMemory(*uuid, bytes)); });
}

napi_value ExportDeviceMemory(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t number;
  if (!ReadInt32(env, arguments[0], &number))
    return ThrowShape(env, "exportDeviceMemory", "a mapping");
  const auto mapping = EngineMemory::Instance().FindMapping(number);
  if (mapping == nullptr) return ThrowErrno(env, ENOENT, "No mapping " + std::to_string(number));
  return Guarded(env, [&]() -> napi_value {
    const cuda::MemoryExport exported = cuda::ExportMemory(*mapping);
    napi_value object, buffer, handle;
    void* bytes;
    napi_create_object(env, &object);
    napi_create_arraybuffer(env, cuda::kHandleBytes, &bytes, &buffer);
    std::memcpy(bytes, exported.handle, cuda::kHandleBytes);
    napi_create_typedarray(env, napi_uint8_array, cuda::kHandleBytes, buffer, 0, &handle);
    SetText(env, object, "uuid", exported.uuid);
    napi_set_named_property(env, object, "handle", handle);
    SetNumber(env, object, "offsetBytes", static_cast<double>(exported.offset));
    SetNumber(env, object, "bytes", static_cast<double>(mapping->bytes()));
    return object;
  });
}

napi_value ReadMapping(napi_env env, napi_callback_info call) {
  const auto range = ReadRange(env, Arguments<3>(env, call), "readMapping");
  if (!range) return nullptr;
  return Guarded(env, [&] {
    const auto& [mapping, offset, bytes] = *range;
    if (mapping->device() == kHostDevice)
      std::memcpy(bytes.data(), mapping->base() + offset, bytes.size());
    else
      cuda::ReadMemory(*mapping, offset, bytes.data(), bytes.size());
    return Undefined(env);
  });
}

napi_value WriteMapping(napi_env env, napi_callback_info call) {
  const auto range = ReadRange(env, Arguments<3>(env, call), "writeMapping");
  if (!range) return nullptr;
  return Guarded(env, [&] {
    const auto& [mapping, offset, bytes] = *range;
    if (mapping->device() == kHostDevice)
      std::memcpy(mapping->base() + offset, bytes.data(), bytes.size());
    else
      cuda::WriteMemory(*mapping, offset, bytes.data(), bytes.size());
    return Undefined(env);
  });
}

}  // namespace orbitkv::addon
