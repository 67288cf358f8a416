#pragma once

#include <node_api.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <system_error>

#include "base/hand_over.h"
#include "base/system_error.h"

/// The few shapes that cross the bridge. Readers return false or nothing for a value of the wrong
/// shape: the data path then answers -EINVAL, everything else throws.
namespace orbitkv::addon {

/// The first N arguments of a call and the pointer its function was made with.
template <size_t N>
class Arguments {
 public:
  Arguments(napi_env env, napi_callback_info call) {
    size_t count = N;
    napi_get_cb_info(env, call, &count, values_.data(), nullptr, &bound_);
  }
  /// JavaScript's undefined when it was not passed.
  napi_value operator[](size_t index) const { return values_[index]; }
  template <class T>
  T& bound() const {
    return *static_cast<T*>(bound_);
  }

 private:
  [[no_unique_address]] HandOver hand_over_;
  std::array<napi_value, N == 0 ? 1 : N> values_{};
  void* bound_ = nullptr;
};

/// Bytes of a typed array and whether a SharedArrayBuffer is behind it (then the address never
/// moves).
struct TypedMemory {
  napi_typedarray_type type;
  void* memory;
  size_t elements;
  bool shared;
};

bool IsUndefined(napi_env env, napi_value value);
bool ReadDouble(napi_env env, napi_value value, double* out);
/// An integer in int32 range; refuses fractions, NaN and what does not fit.
bool ReadInt32(napi_env env, napi_value value, int32_t* out);
/// A non-negative integer below 2^53.
bool ReadOffset(napi_env env, napi_value value, uint64_t* out);
bool ReadBool(napi_env env, napi_value value, bool* out);
/// Nothing also for a text with a NUL in it.
std::optional<std::string> ReadString(napi_env env, napi_value value);
std::optional<TypedMemory> ReadTypedArray(napi_env env, napi_value value);
/// A Float64Array's elements.
std::optional<std::span<double>> ReadDoubles(napi_env env, napi_value value);
/// A Uint8Array's bytes (a Buffer is one).
std::optional<std::span<std::byte>> ReadBytes(napi_env env, napi_value value);

napi_value Undefined(napi_env env);
napi_value Number(napi_env env, double value);
napi_value Int32(napi_env env, int32_t value);
napi_value Text(napi_env env, const std::string& value);
napi_value Boolean(napi_env env, bool value);
void SetNumber(napi_env env, napi_value object, const char* name, double value);
void SetText(napi_env env, napi_value object, const char* name, const std::string& value);
void SetBoolean(napi_env env, napi_value object, const char* name, bool value);

/// "EPERM" for EPERM; "E<number>" for one without a name here.
std::string ErrnoName(int error);
/// Throws an Error with `code` and `errno` into JavaScript. Returns null, to be returned.
napi_value ThrowErrno(napi_env env, int error, const std::string& message);
/// ThrowErrno for ENOMEM, without allocating.
napi_value ThrowNoMemory(napi_env env);
/// Throws a TypeError that names the function and what it wanted.
napi_value ThrowShape(napi_env env, const char* function, const char* wanted);

/// Runs what opens something; what it throws becomes a JavaScript error.
template <class Body>
napi_value Guarded(napi_env env, Body&& body) {
  try {
    return body();
  } catch (const SystemError& error) {
    return ThrowErrno(env, error.error(), error.what());
  } catch (const std::system_error& error) {
    return ThrowErrno(env, error.code().value(), error.what());
  } catch (const std::bad_alloc&) {
    return ThrowNoMemory(env);
  }
}

/// A function of the surface that nothing is thrown past: an exception may not cross the frames of
/// the engine. Where even a lookup got no memory, the call throws into JavaScript.
template <napi_callback function>
napi_value Contained(napi_env env, napi_callback_info call) {
  return Guarded(env, [&] { return function(env, call); });
}

/// The same for a call of the data path, which never throws: it says -ENOMEM.
template <napi_callback function>
napi_value Counted(napi_env env, napi_callback_info call) {
  try {
    return function(env, call);
  } catch (const std::bad_alloc&) {
    return Int32(env, -ENOMEM);
  }
}

/// An external Uint8Array over native memory; `owner` is destroyed when the array is collected.
napi_value ExternalBytes(napi_env env, std::byte* memory, size_t bytes,
                         std::shared_ptr<void> owner);

}  // namespace orbitkv::addon
