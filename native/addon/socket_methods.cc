#include "addon/socket_methods.h"

#include <utility>
#include <vector>

#include "addon/instance.h"
#include "addon/node_api_support.h"

namespace orbitkv::addon {

namespace {

napi_value ThrowClosed(napi_env env) { return ThrowErrno(env, EBADF, "This port is closed"); }

napi_value ThrowUnknown(napi_env env, const char* what, int32_t number) {
  return ThrowErrno(env, EBADF,
                    std::string("No ") + what + " has number " + std::to_string(number));
}

/// The sockets of the bound port, or null: closed, or none were opened.
template <size_t N>
net::Sockets* SocketsOf(const Arguments<N>& arguments) {
  const auto& port = arguments.template bound<OpenedPort>().port;
  return port == nullptr ? nullptr : port->sockets();
}

/// Runs `open(sockets, path)`, which returns a number.
template <class Open>
napi_value OpenPath(napi_env env, napi_callback_info call, const char* function, Open&& open) {
  const Arguments<1> arguments(env, call);
  const auto path = ReadString(env, arguments[0]);
  if (!path) return ThrowShape(env, function, "a path");
  const auto& port = arguments.bound<OpenedPort>().port;
  if (port == nullptr) return ThrowClosed(env);
  return Guarded(env, [&] { return Int32(env, open(port->OpenSockets(), *path)); });
}

/// The elements of an array of descriptors; nothing when it is not one.
std::optional<std::vector<int>> ReadDescriptors(napi_env env, napi_value value) {
  uint32_t count = 0;
  bool is_array = false;
  napi_is_array(env, value, &is_array);
  if (!is_array || napi_get_array_length(env, value, &count) != napi_ok) return std::nullopt;
  if (count > net::kDescriptorsMax) return std::nullopt;
  std::vector<int> fds(count);
  for (uint32_t i = 0; i < count; ++i) {
    napi_value element;
    if (napi_get_element(env, value, i, &element) != napi_ok || !ReadInt32(env, element, &fds[i]))
      return std::nullopt;
  }
  return fds;
}

}  // namespace

napi_value Listen(napi_env env, napi_callback_info call) {
  return OpenPath(env, call, "listen", [](net::Sockets& sockets, const std::string& path) {
    return sockets.Listen(path);
  });
}

napi_value CloseListener(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t number;
  if (!ReadInt32(env, arguments[0], &number)) return ThrowShape(env, "closeListener", "a listener");
  net::Sockets* sockets = SocketsOf(arguments);
  if (sockets == nullptr || !sockets->CloseListener(number))
    return ThrowUnknown(env, "listener", number);
  return Undefined(env);
}

napi_value Connect(napi_env env, napi_callback_info call) {
  return OpenPath(env, call, "connect", [](net::Sockets& sockets, const std::string& path) {
    return sockets.Connect(path);
  });
}

napi_value Adopt(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t fd;
  if (!ReadInt32(env, arguments[0], &fd) || fd < 0) return ThrowShape(env, "adopt", "a descriptor");
  UniqueFd end(fd);  // ours from here on, whatever comes
  const auto& port = arguments.bound<OpenedPort>().port;
  if (port == nullptr) return ThrowClosed(env);
  return Guarded(env, [&] { return Int32(env, port->OpenSockets().AdoptEnd(std::move(end))); });
}

napi_value Peer(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t number;
  if (!ReadInt32(env, arguments[0], &number)) return ThrowShape(env, "peer", "a connection");
  net::Sockets* sockets = SocketsOf(arguments);
  const net::PeerCredentials* peer = sockets == nullptr ? nullptr : sockets->Peer(number);
  if (peer == nullptr) return ThrowUnknown(env, "connection", number);
  napi_value report;
  napi_create_object(env, &report);
  SetNumber(env, report, "uid", peer->uid);
  SetNumber(env, report, "pid", peer->pid);
  return report;
}

napi_value TakeFrame(napi_env env, napi_callback_info call) {
  const Arguments<2> arguments(env, call);
  int32_t number;
  const auto target = ReadBytes(env, arguments[1]);
  if (!ReadInt32(env, arguments[0], &number) || !target) return Int32(env, -EINVAL);
  net::Sockets* sockets = SocketsOf(arguments);
  return Int32(env, sockets == nullptr ? -EBADF : sockets->TakeFrame(number, *target));
}

napi_value TakeFds(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t number;
  napi_value list;
  napi_create_array(env, &list);
  net::Sockets* sockets = SocketsOf(arguments);
  if (sockets == nullptr || !ReadInt32(env, arguments[0], &number)) return list;
  uint32_t index = 0;
  for (UniqueFd& fd : sockets->TakeDescriptors(number))
    napi_set_element(env, list, index++, Int32(env, fd.Release()));
  return list;
}

napi_value Send(napi_env env, napi_callback_info call) {
  const Arguments<4> arguments(env, call);
  int32_t number;
  uint64_t bytes;
  const auto frame = ReadBytes(env, arguments[1]);
  const auto fds = ReadDescriptors(env, arguments[3]);
  if (!ReadInt32(env, arguments[0], &number) || !frame || !ReadOffset(env, arguments[2], &bytes) ||
      bytes > frame->size() || !fds)
    return Int32(env, -EINVAL);
  net::Sockets* sockets = SocketsOf(arguments);
  return Int32(env, sockets == nullptr ? -EBADF : sockets->Send(number, frame->first(bytes), *fds));
}

napi_value CloseConnection(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t number;
  if (!ReadInt32(env, arguments[0], &number))
    return ThrowShape(env, "closeConnection", "a connection");
  // Idempotent: a connection may be given up by several rules at once.
  if (net::Sockets* sockets = SocketsOf(arguments)) sockets->CloseConnection(number);
  return Undefined(env);
}

}  // namespace orbitkv::addon
