#include "addon/node_api_support.h"

#include <utility>

#include "base/whole_number.h"

namespace orbitkv::addon {

namespace {

struct ErrnoEntry {
  int error;
  const char* name;
};

// strerrorname_np is missing before glibc 2.32.
constexpr ErrnoEntry kErrnoNames[] = {
    {EPERM, "EPERM"},
    {ENOENT, "ENOENT"},
    {ESRCH, "ESRCH"},
    {EINTR, "EINTR"},
    {EIO, "EIO"},
    {ENXIO, "ENXIO"},
    {EBADF, "EBADF"},
    {EAGAIN, "EAGAIN"},
    {ENOMEM, "ENOMEM"},
    {EACCES, "EACCES"},
    {EFAULT, "EFAULT"},
    {EBUSY, "EBUSY"},
    {EEXIST, "EEXIST"},
    {EXDEV, "EXDEV"},
    {ENODEV, "ENODEV"},
    {ENOTDIR, "ENOTDIR"},
    {EISDIR, "EISDIR"},
    {EINVAL, "EINVAL"},
    {ENFILE, "ENFILE"},
    {EMFILE, "EMFILE"},
    {ETXTBSY, "ETXTBSY"},
    {EFBIG, "EFBIG"},
    {ENOSPC, "ENOSPC"},
    {ESPIPE, "ESPIPE"},
    {EROFS, "EROFS"},
    {EPIPE, "EPIPE"},
    {EDOM, "EDOM"},
    {ERANGE, "ERANGE"},
    {ENAMETOOLONG, "ENAMETOOLONG"},
    {ENOSYS, "ENOSYS"},
    {ELOOP, "ELOOP"},
    {EBADMSG, "EBADMSG"},
    {EOVERFLOW, "EOVERFLOW"},
    {EMSGSIZE, "EMSGSIZE"},
    {EOPNOTSUPP, "EOPNOTSUPP"},
    {EADDRINUSE, "EADDRINUSE"},
    {ECONNRESET, "ECONNRESET"},
    {ENOTSOCK, "ENOTSOCK"},
    {EPROTOTYPE, "EPROTOTYPE"},
    {ENOBUFS, "ENOBUFS"},
    {ECONNREFUSED, "ECONNREFUSED"},
    {ETIMEDOUT, "ETIMEDOUT"},
    {EALREADY, "EALREADY"},
    {EDQUOT, "EDQUOT"},
    {ECANCELED, "ECANCELED"},
    {ESTALE, "ESTALE"},
    {ETIME, "ETIME"},
    {ENOTCONN, "ENOTCONN"},
    {ENOTEMPTY, "ENOTEMPTY"},
    {ENODATA, "ENODATA"},
};

void ReleaseOwner(napi_env, void*, void* hint) {
  const std::unique_ptr<std::shared_ptr<void>> owner(static_cast<std::shared_ptr<void>*>(hint));
}

}  // namespace

bool IsUndefined(napi_env env, napi_value value) {
  napi_valuetype type;
  return napi_typeof(env, value, &type) == napi_ok && type == napi_undefined;
}

bool ReadDouble(napi_env env, napi_value value, double* out) {
  return napi_get_value_double(env, value, out) == napi_ok;
}

bool ReadInt32(napi_env env, napi_value value, int32_t* out) {
  double number;
  if (!ReadDouble(env, value, &number)) return false;
  if (!(number >= -2147483648.0 && number <= 2147483647.0)) return false;
  *out = static_cast<int32_t>(number);
  return static_cast<double>(*out) == number;
}

bool ReadOffset(napi_env env, napi_value value, uint64_t* out) {
  double number;
  if (!ReadDouble(env, value, &number)) return false;
  return WholeNumber(number, out);
}

bool ReadBool(napi_env env, napi_value value, bool* out) {
  return napi_get_value_bool(env, value, out) == napi_ok;
}

std::optional<std::string> ReadString(napi_env env, napi_value value) {
  size_t bytes = 0;
  if (napi_get_value_string_utf8(env, value, nullptr, 0, &bytes) != napi_ok) return std::nullopt;
  std::string text(bytes, '\0');
  napi_get_value_string_utf8(env, value, text.data(), bytes + 1, &bytes);
  // The system would read another, shorter name.
  if (text.find('\0') != std::string::npos) return std::nullopt;
  return text;
}

std::optional<TypedMemory> ReadTypedArray(napi_env env, napi_value value) {
  bool is_typed_array = false;
  if (napi_is_typedarray(env, value, &is_typed_array) != napi_ok || !is_typed_array)
    return std::nullopt;
  TypedMemory found{};
  napi_value buffer;
  size_t offset;
  if (napi_get_typedarray_info(env, value, &found.type, &found.elements, &found.memory, &buffer,
                               &offset) != napi_ok)
    return std::nullopt;
  // What Node-API returns for a shared array is a SharedArrayBuffer, which it does not call an
  // ArrayBuffer.
  bool is_array_buffer = false;
  napi_is_arraybuffer(env, buffer, &is_array_buffer);
  found.shared = !is_array_buffer;
  return found;
}

std::optional<std::span<double>> ReadDoubles(napi_env env, napi_value value) {
  const auto found = ReadTypedArray(env, value);
  if (!found || found->type != napi_float64_array) return std::nullopt;
  return std::span(static_cast<double*>(found->memory), found->elements);
}

std::optional<std::span<std::byte>> ReadBytes(napi_env env, napi_value value) {
  const auto found = ReadTypedArray(env, value);
  if (!found || found->type != napi_uint8_array) return std::nullopt;
  return std::span(static_cast<std::byte*>(found->memory), found->elements);
}

napi_value Undefined(napi_env env) {
  napi_value value;
  napi_get_undefined(env, &value);
  return value;
}

napi_value Number(napi_env env, double number) {
  napi_value value;
  napi_create_double(env, number, &value);
  return value;
}

napi_value Int32(napi_env env, int32_t number) {
  napi_value value;
  napi_create_int32(env, number, &value);
  return value;
}

napi_value Text(napi_env env, const std::string& text) {
  napi_value value;
  napi_create_string_utf8(env, text.data(), text.size(), &value);
  return value;
}

napi_value Boolean(napi_env env, bool truth) {
  napi_value value;
  napi_get_boolean(env, truth, &value);
  return value;
}

void SetNumber(napi_env env, napi_value object, const char* name, double value) {
  napi_set_named_property(env, object, name, Number(env, value));
}

void SetText(napi_env env, napi_value object, const char* name, const std::string& value) {
  napi_set_named_property(env, object, name, Text(env, value));
}

void SetBoolean(napi_env env, napi_value object, const char* name, bool value) {
  napi_set_named_property(env, object, name, Boolean(env, value));
}

std::string ErrnoName(int error) {
  for (const auto& [number, name] : kErrnoNames)
    if (number == error) return name;
  return "E" + std::to_string(error);
}

napi_value ThrowNoMemory(napi_env env) {
  napi_value code;
  napi_value message;
  napi_value error;
  napi_create_string_utf8(env, "ENOMEM", NAPI_AUTO_LENGTH, &code);
  napi_create_string_utf8(env, "No memory for the addon's own records", NAPI_AUTO_LENGTH, &message);
  napi_create_error(env, code, message, &error);
  napi_set_named_property(env, error, "errno", Int32(env, ENOMEM));
  napi_throw(env, error);
  return nullptr;
}

napi_value ThrowErrno(napi_env env, int error, const std::string& message) {
  napi_value thrown;
  napi_create_error(env, Text(env, ErrnoName(error)), Text(env, message), &thrown);
  SetNumber(env, thrown, "errno", error);
  napi_throw(env, thrown);
  return nullptr;
}

napi_value ThrowShape(napi_env env, const char* function, const char* wanted) {
  const std::string message = std::string(function) + " wants " + wanted;
  napi_throw_type_error(env, "ERR_INVALID_ARG_TYPE", message.c_str());
  return nullptr;
}

napi_value ExternalBytes(napi_env env, std::byte* memory, size_t bytes,
                         std::shared_ptr<void> owner) {
  auto hint = std::make_unique<std::shared_ptr<void>>(std::move(owner));
  napi_value buffer;
  if (napi_create_external_arraybuffer(env, memory, bytes, ReleaseOwner, hint.get(), &buffer) !=
      napi_ok)
    return ThrowErrno(env, EOPNOTSUPP, "This runtime has no external array buffers");
  [[maybe_unused]] const auto released = hint.release();
  napi_value array;
  napi_create_typedarray(env, napi_uint8_array, bytes, buffer, 0, &array);
  return array;
}

}  // namespace orbitkv::addon
