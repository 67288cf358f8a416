#include "addon/stream_methods.h"

#include <optional>
#include <span>

#include "addon/instance.h"
#include "addon/node_api_support.h"
#include "device/jobs.h"

namespace orbitkv::addon {
namespace {

/// `count` descriptors of `fields` float64 each at list[offset]; nothing when they are not all
/// there.
std::optional<std::span<const double>> ReadList(napi_env env, napi_value list, napi_value offset,
                                                napi_value count, size_t fields) {
  const auto doubles = ReadDoubles(env, list);
  uint64_t first, descriptors;
  if (!doubles || !ReadOffset(env, offset, &first) || !ReadOffset(env, count, &descriptors) ||
      first > doubles->size() || descriptors > (doubles->size() - first) / fields)
    return std::nullopt;
  return doubles->subspan(first, descriptors * fields);
}

}  // namespace

napi_value OpenStream(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  const auto& port = arguments.bound<OpenedPort>().port;
  if (port == nullptr) return ThrowErrno(env, EBADF, "This port is closed");
  if (ReadString(env, arguments[0]) != "host") return ThrowShape(env, "openStream", "host");
  return Guarded(env, [&] { return Int32(env, port->OpenStream()); });
}

napi_value Copy(napi_env env, napi_callback_info call) {
  const Arguments<6> arguments(env, call);
  const auto& port = arguments.bound<OpenedPort>().port;
  if (port == nullptr) return Int32(env, -EBADF);
  int32_t stream, tag, direction;
  const auto list = ReadList(env, arguments[3], arguments[4], arguments[5], kCopyDoubles);
  if (!list || !ReadInt32(env, arguments[0], &stream) || !ReadInt32(env, arguments[1], &tag) ||
      !ReadInt32(env, arguments[2], &direction) || direction < 0 || direction > 1 ||
      port->stream(stream) == nullptr)
    return Int32(env, -EINVAL);
  return Int32(env, port->stream(stream)->Copy(tag, static_cast<CopyDirection>(direction), *list));
}

napi_value Checksum(napi_env env, napi_callback_info call) {
  const Arguments<6> arguments(env, call);
  const auto& port = arguments.bound<OpenedPort>().port;
  if (port == nullptr) return Int32(env, -EBADF);
  int32_t stream, tag;
  uint64_t result_base;
  const auto list = ReadList(env, arguments[2], arguments[3], arguments[4], kChecksumDoubles);
  if (!list || !ReadInt32(env, arguments[0], &stream) || !ReadInt32(env, arguments[1], &tag) ||
      !ReadOffset(env, arguments[5], &result_base) || port->stream(stream) == nullptr)
    return Int32(env, -EINVAL);
  return Int32(env, port->stream(stream)->Checksum(tag, *list, result_base));
}

}  // namespace orbitkv::addon
