#include "addon/functions.h"
#include "addon/node_api_support.h"
#include "files/path_lock.h"
#include "files/shard_file.h"

namespace orbitkv::addon {

napi_value OpenShard(napi_env env, napi_callback_info call) {
  const Arguments<3> arguments(env, call);
  const auto path = ReadString(env, arguments[0]);
  uint64_t bytes;
  bool direct;
  if (!path || !ReadOffset(env, arguments[1], &bytes) || !ReadBool(env, arguments[2], &direct))
    return ThrowShape(env, "openShard", "a path, bytes and whether direct");
  return Guarded(env, [&]() -> napi_value {
    const auto file = OpenShardFile(*path, bytes, direct);
    napi_value report;
    napi_create_object(env, &report);
    SetNumber(env, report, "file", Files().Add(file));
    SetNumber(env, report, "bytes", static_cast<double>(file->bytes));
    SetNumber(env, report, "directMemoryAlign", file->direct_memory_align);
    SetNumber(env, report, "directOffsetAlign", file->direct_offset_align);
    SetText(env, report, "device", file->device);
    SetNumber(env, report, "filesystem", static_cast<double>(file->filesystem));
    return report;
  });
}

napi_value LockPath(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  const auto path = ReadString(env, arguments[0]);
  if (!path) return ThrowShape(env, "lockPath", "a path");
  return Guarded(env, [&] { return Int32(env, PathLocks().Add(LockPathFile(*path))); });
}

napi_value UnlockPath(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t number;
  if (!ReadInt32(env, arguments[0], &number))
    return ThrowShape(env, "unlockPath", "a lock's number");
  if (PathLocks().Remove(number) == nullptr)
    return ThrowErrno(env, EBADF, "No lock has number " + std::to_string(number));
  return Undefined(env);
}

napi_value CloseShard(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t number;
  if (!ReadInt32(env, arguments[0], &number))
    return ThrowShape(env, "closeShard", "a file's number");
  if (!CloseShardFile(number))
    return ThrowErrno(env, EBADF, "No file has number " + std::to_string(number));
  return Undefined(env);
}

}  // namespace orbitkv::addon
