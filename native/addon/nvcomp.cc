#include "addon/functions.h"
#include "addon/node_api_support.h"
#include "nvcomp/library.h"

namespace orbitkv::addon {

napi_value OpenNvcomp(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  const auto library = ReadString(env, arguments[0]);
  if (!library) return ThrowShape(env, "openNvcomp", "the path of a library, or an empty text");
  const nvcomp::OpenReport report = nvcomp::Library::Instance().Open(*library);
  napi_value object;
  napi_create_object(env, &object);
  SetBoolean(env, object, "available", report.available());
  SetText(env, object, "reason", report.reason);
  SetNumber(env, object, "version", report.version);
  SetText(env, object, "path", report.path);
  return object;
}

}  // namespace orbitkv::addon
