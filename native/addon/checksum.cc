#include <string>

#include "addon/functions.h"
#include "addon/node_api_support.h"
#include "codec/crc32.h"

namespace orbitkv::addon {
namespace {

/// The variant that JavaScript names, if this processor has it.
std::optional<Crc32Variant> VariantNamed(const std::string& name) {
  if (name == "auto") return Crc32Best();
  for (const Crc32Variant variant : kCrc32Variants)
    if (name == Crc32Name(variant) && Crc32Available(variant)) return variant;
  return std::nullopt;
}

}  // namespace

napi_value Crc32(napi_env env, napi_callback_info call) {
  const Arguments<3> arguments(env, call);
  const auto bytes = ReadBytes(env, arguments[0]);
  uint64_t crc;
  const auto name = ReadString(env, arguments[2]);
  if (!bytes || !ReadOffset(env, arguments[1], &crc) || crc > UINT32_MAX || !name)
    return ThrowShape(env, "crc32", "a Uint8Array, a CRC and the name of a variant");
  const auto variant = VariantNamed(*name);
  if (!variant)
    return ThrowErrno(env, EOPNOTSUPP, "This processor cannot compute a CRC by " + *name);
  return Number(env, Crc32With(*variant, static_cast<uint32_t>(crc), bytes->data(), bytes->size()));
}

napi_value Crc32Variants(napi_env env, napi_callback_info) {
  napi_value names;
  napi_create_array(env, &names);
  uint32_t count = 0;
  for (const Crc32Variant variant : kCrc32Variants)
    if (Crc32Available(variant))
      napi_set_element(env, names, count++, Text(env, std::string(Crc32Name(variant))));
  return names;
}

}  // namespace orbitkv::addon
