#include <unistd.h>

#include "addon/functions.h"
#include "addon/node_api_support.h"
#include "base/clock.h"
#include "net/unix_socket.h"

namespace orbitkv::addon {

napi_value CloseFd(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t fd;
  if (!ReadInt32(env, arguments[0], &fd) || fd < 0)
    return ThrowShape(env, "closeFd", "a descriptor");
  if (::close(fd) != 0)
    return ThrowErrno(env, errno, "Cannot close descriptor " + std::to_string(fd));
  return Undefined(env);
}

napi_value SocketPair(napi_env env, napi_callback_info) {
  return Guarded(env, [&] {
    auto ends = net::ConnectedPair();
    napi_value pair;
    napi_create_array(env, &pair);
    for (uint32_t i = 0; i < ends.size(); ++i)
      napi_set_element(env, pair, i, Int32(env, ends[i].Release()));
    return pair;
  });
}

napi_value ReadMonotonicUs(napi_env env, napi_callback_info) {
  return Number(env, static_cast<double>(MonotonicNs()) / 1000.0);
}

}  // namespace orbitkv::addon
