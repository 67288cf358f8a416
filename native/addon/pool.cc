#include "memory/pool.h"

#include "addon/functions.h"
#include "addon/node_api_support.h"

namespace orbitkv::addon {

napi_value OpenPool(napi_env env, napi_callback_info call) {
  const Arguments<2> arguments(env, call);
  uint64_t bytes;
  if (!ReadOffset(env, arguments[0], &bytes) || bytes == 0)
    return ThrowShape(env, "openPool", "bytes above 0");
  auto pages = PoolPages::kHuge;
  napi_valuetype given = napi_undefined;
  napi_typeof(env, arguments[1], &given);
  if (given != napi_undefined) {
    const auto name = ReadString(env, arguments[1]);
    if (name != "huge" && name != "ordinary")
      return ThrowShape(env, "openPool", "pages: huge or ordinary");
    if (name == "ordinary") pages = PoolPages::kOrdinary;
  }
  return Guarded(env, [&]() -> napi_value {
    const auto pool = Pool::Open(bytes, pages);
    napi_value report;
    napi_create_object(env, &report);
    SetNumber(env, report, "pool", Pools().Add(pool));
    SetNumber(env, report, "bytes", static_cast<double>(pool->bytes()));
    SetNumber(env, report, "hugePageBytes", static_cast<double>(pool->huge_page_bytes()));
    SetNumber(env, report, "populateMs", pool->populate_ms());
    return report;
  });
}

napi_value ClosePool(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t number;
  if (!ReadInt32(env, arguments[0], &number))
    return ThrowShape(env, "closePool", "a pool's number");
  if (Pools().Remove(number) == nullptr)
    return ThrowErrno(env, EBADF, "No pool has number " + std::to_string(number));
  return Undefined(env);
}

napi_value PoolView(napi_env env, napi_callback_info call) {
  const Arguments<3> arguments(env, call);
  int32_t number;
  uint64_t offset;
  uint64_t bytes;
  if (!ReadInt32(env, arguments[0], &number) || !ReadOffset(env, arguments[1], &offset) ||
      !ReadOffset(env, arguments[2], &bytes))
    return ThrowShape(env, "poolView", "a pool's number, an offset and bytes");
  auto pool = Pools().Find(number);
  if (pool == nullptr)
    return ThrowErrno(env, EBADF, "No pool has number " + std::to_string(number));
  if (!pool->Contains(offset, bytes))
    return ThrowErrno(env, EINVAL, "The view does not lie inside the pool");
  std::byte* first = pool->base() + offset;
  return ExternalBytes(env, first, bytes, std::move(pool));
}

}  // namespace orbitkv::addon
