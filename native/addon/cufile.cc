#include "addon/functions.h"
#include "addon/node_api_support.h"
#include "cufile/library.h"
#include "files/shard_file.h"

namespace orbitkv::addon {

napi_value OpenCuFile(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  const auto property = [&](const char* name) {
    napi_value value;
    return napi_get_named_property(env, arguments[0], name, &value) == napi_ok ? value
                                                                               : Undefined(env);
  };
  cufile::OpenOptions options{};
  const auto library = ReadString(env, property("library"));
  const auto log_folder = ReadString(env, property("logFolder"));
  if (!library || !log_folder || !ReadBool(env, property("nativeOnly"), &options.native_only))
    return ThrowShape(env, "openCuFile", "library, nativeOnly and logFolder");
  options.library = *library;
  options.log_folder = *log_folder;
  const cufile::OpenReport report = cufile::Library::Instance().Open(options);
  napi_value object;
  napi_create_object(env, &object);
  SetBoolean(env, object, "available", report.available());
  SetText(env, object, "reason", report.reason);
  SetNumber(env, object, "code", report.code);
  SetNumber(env, object, "version", report.version);
  SetText(env, object, "path", report.path);
  SetBoolean(env, object, "compatible", report.compatible);
  return object;
}

napi_value RegisterCuFileShard(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t file;
  if (!ReadInt32(env, arguments[0], &file))
    return ThrowShape(env, "registerCuFileShard", "a file's number");
  return Int32(env, cufile::Library::Instance().Register(file));
}

napi_value CloseCuFile(napi_env env, napi_callback_info) {
  return Int32(env, cufile::Library::Instance().Close());
}

napi_value ReserveShard(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t number;
  if (!ReadInt32(env, arguments[0], &number))
    return ThrowShape(env, "reserveShard", "a file's number");
  const auto file = Files().Find(number);
  return Int32(env, file == nullptr ? -EBADF : ReserveShardFile(*file));
}

}  // namespace orbitkv::addon
