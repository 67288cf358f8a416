#include "codec/turboquant.h"

#include <optional>
#include <string>

#include "addon/functions.h"
#include "addon/node_api_support.h"
#include "codec/item_coding.h"

namespace orbitkv::addon {
namespace {

/// What both directions take: whole vectors and their codings.
struct Conversion {
  std::span<std::byte> from;
  std::span<std::byte> to;
  TurboquantShape shape;
  uint64_t count;
  TurboquantVariant variant;
};

/// The variant that JavaScript names, if this processor has it.
std::optional<TurboquantVariant> VariantNamed(const std::string& name) {
  if (name == "auto") return TurboquantBest();
  for (const TurboquantVariant variant : kTurboquantVariants)
    if (name == TurboquantName(variant) && TurboquantAvailable(variant)) return variant;
  return std::nullopt;
}

/// Throws into JavaScript and returns nothing for other shapes and for variants that are not here.
std::optional<Conversion> ReadConversion(napi_env env, napi_callback_info call, const char* name,
                                         bool encode) {
  const Arguments<4> arguments(env, call);
  const auto from = ReadBytes(env, arguments[0]);
  const auto to = ReadBytes(env, arguments[1]);
  const auto fields = ReadDoubles(env, arguments[2]);
  const auto variant_name = ReadString(env, arguments[3]);
  const auto coding = fields ? ReadItemCoding(*fields) : std::nullopt;
  const uint64_t logical = from && to ? (encode ? from : to)->size() : 0;
  const uint64_t stored = from && to ? (encode ? to : from)->size() : 0;
  if (!coding || !variant_name || coding->format != ItemFormat::kTurboquant ||
      RuleBroken(*coding, logical) != nullptr || stored != StoredBytes(*coding, logical)) {
    ThrowShape(env, name,
               "whole vectors, their coding's bytes, an ITEM_CODING of turboquant, the name of a "
               "variant");
    return std::nullopt;
  }
  const auto variant = VariantNamed(*variant_name);
  if (!variant) {
    ThrowErrno(env, EOPNOTSUPP, "This processor cannot code TurboQuant by " + *variant_name);
    return std::nullopt;
  }
  const TurboquantShape shape = coding->turboquant();
  return Conversion{*from, *to, shape, logical / shape.logical_bytes(), *variant};
}

}  // namespace

napi_value EncodeTurboquant(napi_env env, napi_callback_info call) {
  const auto asked = ReadConversion(env, call, "turboquantEncode", true);
  if (!asked) return nullptr;
  const auto& [values, stored, shape, count, variant] = *asked;
  auto* target = reinterpret_cast<uint8_t*>(stored.data());
  return Boolean(env, TurboquantEncode(variant, shape, values.data(), count, target));
}

napi_value DecodeTurboquant(napi_env env, napi_callback_info call) {
  const auto asked = ReadConversion(env, call, "turboquantDecode", false);
  if (!asked) return nullptr;
  const auto& [stored, values, shape, count, variant] = *asked;
  const auto* from = reinterpret_cast<const uint8_t*>(stored.data());
  return Boolean(env, TurboquantDecode(variant, shape, from, count, values.data()));
}

napi_value TurboquantVariants(napi_env env, napi_callback_info) {
  napi_value names;
  napi_create_array(env, &names);
  uint32_t count = 0;
  for (const TurboquantVariant variant : kTurboquantVariants)
    if (TurboquantAvailable(variant))
      napi_set_element(env, names, count++, Text(env, std::string(TurboquantName(variant))));
  return names;
}

}  // namespace orbitkv::addon
