#include "codec/fp8.h"

#include <optional>
#include <string>

#include "addon/functions.h"
#include "addon/node_api_support.h"

namespace orbitkv::addon {
namespace {

/// The variant that JavaScript names, if this processor has it.
std::optional<Fp8Variant> VariantNamed(const std::string& name) {
  if (name == "auto") return Fp8Best();
  for (const Fp8Variant variant : kFp8Variants)
    if (name == Fp8Name(variant) && Fp8Available(variant)) return variant;
  return std::nullopt;
}

std::optional<Fp8Source> SourceNamed(const std::string& name) {
  if (name == "bf16") return Fp8Source::kBf16;
  if (name == "fp16") return Fp8Source::kFp16;
  return std::nullopt;
}

/// What both directions take: 16-bit values and as many codes.
struct Conversion {
  std::span<std::byte> from;
  std::span<std::byte> to;
  Fp8Source source;
  Fp8Variant variant;
};

/// Throws into JavaScript and returns nothing for other shapes and for variants that are not here.
std::optional<Conversion> ReadConversion(napi_env env, napi_callback_info call, const char* name,
                                         bool encode) {
  const Arguments<4> arguments(env, call);
  const auto from = ReadBytes(env, arguments[0]);
  const auto to = ReadBytes(env, arguments[1]);
  const auto source_name = ReadString(env, arguments[2]);
  const auto variant_name = ReadString(env, arguments[3]);
  const auto source = source_name ? SourceNamed(*source_name) : std::nullopt;
  if (!from || !to || !source || !variant_name ||
      (encode ? from->size() != 2 * to->size() : 2 * from->size() != to->size())) {
    ThrowShape(env, name, "16-bit values, as many codes, 'bf16' or 'fp16', the name of a variant");
    return std::nullopt;
  }
  const auto variant = VariantNamed(*variant_name);
  if (!variant) {
    ThrowErrno(env, EOPNOTSUPP, "This processor cannot convert FP8 by " + *variant_name);
    return std::nullopt;
  }
  return Conversion{*from, *to, *source, *variant};
}

}  // namespace

napi_value EncodeFp8(napi_env env, napi_callback_info call) {
  const auto asked = ReadConversion(env, call, "fp8Encode", true);
  if (!asked) return nullptr;
  const auto& [values, codes, source, variant] = *asked;
  auto* target = reinterpret_cast<uint8_t*>(codes.data());
  return Boolean(env, Fp8Encode(variant, source, values.data(), codes.size(), target));
}

napi_value DecodeFp8(napi_env env, napi_callback_info call) {
  const auto asked = ReadConversion(env, call, "fp8Decode", false);
  if (!asked) return nullptr;
  const auto& [codes, values, source, variant] = *asked;
  const auto* from = reinterpret_cast<const uint8_t*>(codes.data());
  return Boolean(env, Fp8Decode(variant, source, from, codes.size(), values.data()));
}

napi_value Fp8Variants(napi_env env, napi_callback_info) {
  napi_value names;
  napi_create_array(env, &names);
  uint32_t count = 0;
  for (const Fp8Variant variant : kFp8Variants)
    if (Fp8Available(variant))
      napi_set_element(env, names, count++, Text(env, std::string(Fp8Name(variant))));
  return names;
}

}  // namespace orbitkv::addon
