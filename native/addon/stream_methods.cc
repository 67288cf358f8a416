#include "addon/stream_methods.h"

#include <cerrno>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "addon/device_names.h"
#include "addon/instance.h"
#include "addon/node_api_support.h"
#include "cuda/devices.h"
#include "cufile/staging.h"
#include "device/jobs.h"

namespace orbitkv::addon {
namespace {

/// Far above what a slot has; cuFile registers at most 16 MiB at once.
constexpr uint64_t kStagingBytesMax = 16 << 20;
/// More than a device has: a budget above it is a bug of the caller.
constexpr uint64_t kCodecBudgetBytesMax = uint64_t{1} << 40;

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

/// `Transfer`, `Gather` and `Descriptors` in src/binding/streams.ts, each in the order of its enum.
constexpr const char* kTransfers[] = {"auto", "direct", "kernel"};
constexpr const char* kGathers[] = {"rounds", "warps"};
constexpr const char* kDescriptors[] = {"mapped", "fed"};

/// The one of `names` that JavaScript says; nothing for another text.
template <class T, size_t N>
std::optional<T> ReadChoice(napi_env env, napi_value value, const char* const (&names)[N]) {
  const auto name = ReadString(env, value);
  for (size_t i = 0; i < N; ++i)
    if (name == names[i]) return static_cast<T>(i);
  return std::nullopt;
}

/// A property of an object; nothing when it is undefined.
std::optional<napi_value> Given(napi_env env, napi_value object, const char* name) {
  napi_value value;
  napi_valuetype type;
  if (napi_get_named_property(env, object, name, &value) != napi_ok ||
      napi_typeof(env, value, &type) != napi_ok || type == napi_undefined)
    return std::nullopt;
  return value;
}

/// A whole number in [least, most], or nothing.
std::optional<uint64_t> ReadWithin(napi_env env, napi_value value, uint64_t least, uint64_t most) {
  uint64_t number;
  if (!ReadOffset(env, value, &number) || number < least || number > most) return std::nullopt;
  return number;
}

/// `StreamOptions` in src/binding/streams.ts; nothing when one is malformed.
std::optional<StreamOptions> ReadStreamOptions(napi_env env, napi_value options) {
  StreamOptions read;
  napi_valuetype type;
  napi_typeof(env, options, &type);
  if (type == napi_undefined) return read;
  if (type != napi_object) return std::nullopt;
  if (const auto given = Given(env, options, "transfer")) {
    const auto transfer = ReadChoice<Transfer>(env, *given, kTransfers);
    if (!transfer) return std::nullopt;
    read.transfer = *transfer;
  }
  if (const auto given = Given(env, options, "gather")) {
    const auto gather = ReadChoice<Gather>(env, *given, kGathers);
    if (!gather) return std::nullopt;
    read.gather = *gather;
  }
  if (const auto given = Given(env, options, "descriptors")) {
    const auto descriptors = ReadChoice<Descriptors>(env, *given, kDescriptors);
    if (!descriptors) return std::nullopt;
    read.descriptors = *descriptors;
  }
  if (const auto given = Given(env, options, "blocks")) {
    const auto blocks = ReadWithin(env, *given, 1, 1024);
    if (!blocks) return std::nullopt;
    read.blocks = static_cast<uint32_t>(*blocks);
  }
  if (const auto given = Given(env, options, "tileBytes")) {
    const auto bytes = ReadWithin(env, *given, 512, 1 << 20);
    if (!bytes) return std::nullopt;
    read.tile_bytes = *bytes;
  }
  if (const auto given = Given(env, options, "timed"))
    if (!ReadBool(env, *given, &read.timed)) return std::nullopt;
  if (const auto given = Given(env, options, "codecBudgetBytes")) {
    const auto bytes = ReadWithin(env, *given, 0, kCodecBudgetBytesMax);
    if (!bytes) return std::nullopt;
    read.codec_budget_bytes = *bytes;
  }
  if (const auto given = Given(env, options, "codecStagingBudgetBytes")) {
    const auto bytes = ReadWithin(env, *given, 0, kCodecBudgetBytesMax);
    if (!bytes) return std::nullopt;
    read.codec_staging_budget_bytes = *bytes;
  }
  if (const auto given = Given(env, options, "encodeBudgetBytes")) {
    read.encode_budget_bytes = ReadWithin(env, *given, 0, kCodecBudgetBytesMax);
    if (!read.encode_budget_bytes) return std::nullopt;
  }
  return read;
}

/// A list of triples and the stream that holds what they name, from argument `at` on; none when
/// that is undefined. Nothing when it is malformed.
std::optional<cufile::HeldWrite> ReadHeldWrite(napi_env env, const Port& port,
                                               const Arguments<14>& arguments, size_t at) {
  if (IsUndefined(env, arguments[at])) return cufile::HeldWrite{};
  const auto triples =
      ReadList(env, arguments[at], arguments[at + 1], arguments[at + 2], kHeldDoubles);
  int32_t holder;
  if (!triples || !ReadInt32(env, arguments[at + 3], &holder) || port.stream(holder) == nullptr)
    return std::nullopt;
  return cufile::HeldWrite{*triples, port.stream(holder)->held_codes()};
}

/// encode() and decode(), which take the same.
napi_value Code(napi_env env, napi_callback_info call,
                int (Stream::*queue)(int32_t, std::span<const double>, size_t)) {
  const Arguments<6> arguments(env, call);
  const auto& port = arguments.bound<OpenedPort>().port;
  if (port == nullptr) return Int32(env, -EBADF);
  int32_t stream, tag;
  uint64_t result_base;
  const auto list = ReadList(env, arguments[2], arguments[3], arguments[4], kCopyDoubles);
  if (!list || !ReadInt32(env, arguments[0], &stream) || !ReadInt32(env, arguments[1], &tag) ||
      !ReadOffset(env, arguments[5], &result_base) || port->stream(stream) == nullptr)
    return Int32(env, -EINVAL);
  return Int32(env, (port->stream(stream)->*queue)(tag, *list, result_base));
}

}  // namespace

napi_value OpenStream(napi_env env, napi_callback_info call) {
  const Arguments<2> arguments(env, call);
  const auto& port = arguments.bound<OpenedPort>().port;
  if (port == nullptr) return ThrowErrno(env, EBADF, "This port is closed");
  const auto name = ReadString(env, arguments[0]);
  const auto ordinal = name ? ReadDeviceName(*name) : std::nullopt;
  const auto options = ReadStreamOptions(env, arguments[1]);
  if (!ordinal) return ThrowShape(env, "openStream", "host or cuda:N");
  if (!options)
    return ThrowShape(
        env, "openStream",
        "options: transfer auto, direct or kernel, blocks 1 to 1024, tileBytes 512 to "
        "2^20, timed a boolean, gather rounds or warps, descriptors mapped or fed, "
        "codecBudgetBytes, codecStagingBudgetBytes and encodeBudgetBytes 0 to 2^40");
  return Guarded(env, [&] {
    Device& device = *ordinal == kHostDevice ? HostDevice() : cuda::OpenDevice(*ordinal);
    return Int32(env, port->OpenStream(device, *options));
  });
}

napi_value ReportStream(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  const auto& port = arguments.bound<OpenedPort>().port;
  if (port == nullptr) return ThrowErrno(env, EBADF, "This port is closed");
  int32_t stream;
  if (!ReadInt32(env, arguments[0], &stream) || port->stream(stream) == nullptr)
    return ThrowShape(env, "streamReport", "a stream of this port");
  const StreamReport report = port->stream(stream)->report();
  napi_value object;
  napi_create_object(env, &object);
  SetText(env, object, "device", report.device);
  SetText(env, object, "transfer", kTransfers[static_cast<size_t>(report.transfer)]);
  SetBoolean(env, object, "kernels", report.kernels);
  SetText(env, object, "kernelsReason", report.kernels_reason);
  SetBoolean(env, object, "poolRegistered", report.pool_registered);
  SetNumber(env, object, "poolRegisterMs", report.pool_register_ms);
  SetNumber(env, object, "directJobs", static_cast<double>(report.direct_jobs));
  SetNumber(env, object, "kernelJobs", static_cast<double>(report.kernel_jobs));
  return object;
}

napi_value ReportCodecWorkspace(napi_env env, napi_callback_info call) {
  const Arguments<2> arguments(env, call);
  const auto& port = arguments.bound<OpenedPort>().port;
  if (port == nullptr) return ThrowErrno(env, EBADF, "This port is closed");
  int32_t stream;
  const auto into = ReadDoubles(env, arguments[1]);
  if (!into || into->size() < 3 || !ReadInt32(env, arguments[0], &stream) ||
      port->stream(stream) == nullptr)
    return ThrowShape(env, "codecWorkspace", "a stream of this port and a Float64Array of 3");
  const CodecWorkspace workspace = port->stream(stream)->codec_workspace();
  (*into)[0] = static_cast<double>(workspace.reserved_bytes);
  (*into)[1] = static_cast<double>(workspace.held_bytes);
  (*into)[2] = static_cast<double>(workspace.allocations);
  return Undefined(env);
}

/// What a stream, the one argument, answers.
napi_value Release(napi_env env, napi_callback_info call, int (Stream::*release)()) {
  const Arguments<1> arguments(env, call);
  const auto& port = arguments.bound<OpenedPort>().port;
  int32_t stream;
  if (port == nullptr) return Int32(env, -EBADF);
  if (!ReadInt32(env, arguments[0], &stream) || port->stream(stream) == nullptr)
    return Int32(env, -EINVAL);
  return Int32(env, (port->stream(stream)->*release)());
}

napi_value ReleaseCodecWorkspace(napi_env env, napi_callback_info call) {
  return Release(env, call, &Stream::ReleaseCodecWorkspace);
}

napi_value Encode(napi_env env, napi_callback_info call) {
  return Code(env, call, &Stream::Encode);
}

napi_value EncodeHeld(napi_env env, napi_callback_info call) {
  return Code(env, call, &Stream::EncodeHeld);
}

napi_value ReleaseCodes(napi_env env, napi_callback_info call) {
  return Release(env, call, &Stream::ReleaseCodes);
}

napi_value Decode(napi_env env, napi_callback_info call) {
  return Code(env, call, &Stream::Decode);
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

napi_value Move(napi_env env, napi_callback_info call) {
  const Arguments<5> arguments(env, call);
  const auto& port = arguments.bound<OpenedPort>().port;
  if (port == nullptr) return Int32(env, -EBADF);
  int32_t stream, tag;
  const auto list = ReadList(env, arguments[2], arguments[3], arguments[4], kMoveDoubles);
  if (!list || !ReadInt32(env, arguments[0], &stream) || !ReadInt32(env, arguments[1], &tag) ||
      port->stream(stream) == nullptr)
    return Int32(env, -EINVAL);
  return Int32(env, port->stream(stream)->Move(tag, *list));
}

napi_value ChecksumMapped(napi_env env, napi_callback_info call) {
  const Arguments<6> arguments(env, call);
  const auto& port = arguments.bound<OpenedPort>().port;
  if (port == nullptr) return Int32(env, -EBADF);
  int32_t stream, tag;
  uint64_t result_base;
  const auto list = ReadList(env, arguments[2], arguments[3], arguments[4], kMappedChecksumDoubles);
  if (!list || !ReadInt32(env, arguments[0], &stream) || !ReadInt32(env, arguments[1], &tag) ||
      !ReadOffset(env, arguments[5], &result_base) || port->stream(stream) == nullptr)
    return Int32(env, -EINVAL);
  return Int32(env, port->stream(stream)->ChecksumMapped(tag, *list, result_base));
}

napi_value OpenStaging(napi_env env, napi_callback_info call) {
  const Arguments<3> arguments(env, call);
  const auto& port = arguments.bound<OpenedPort>().port;
  if (port == nullptr) return Int32(env, -EBADF);
  uint64_t bytes;
  if (!ReadOffset(env, arguments[1], &bytes) || bytes == 0 || bytes > kStagingBytesMax)
    return Int32(env, -EINVAL);
  const auto name = ReadString(env, arguments[0]);
  const auto device = name ? ReadDeviceName(*name) : std::nullopt;
  const auto options = ReadStreamOptions(env, arguments[2]);
  if (!device || !options) return Int32(env, -EINVAL);
  return Int32(env, port->OpenStaging(*device, bytes, *options));
}

napi_value StagingRead(napi_env env, napi_callback_info call) {
  const Arguments<9> arguments(env, call);
  const auto& port = arguments.bound<OpenedPort>().port;
  if (port == nullptr) return Int32(env, -EBADF);
  int32_t stream, tag, file;
  cufile::Extent extent{};
  uint64_t result_base;
  const auto checks = ReadList(env, arguments[5], arguments[6], arguments[7], kChecksumDoubles);
  if (!checks || !ReadInt32(env, arguments[0], &stream) || !ReadInt32(env, arguments[1], &tag) ||
      !ReadInt32(env, arguments[2], &file) || !ReadOffset(env, arguments[3], &extent.file_offset) ||
      !ReadOffset(env, arguments[4], &extent.bytes) ||
      !ReadOffset(env, arguments[8], &result_base) || port->staging(stream) == nullptr)
    return Int32(env, -EINVAL);
  auto registered = cufile::Library::Instance().Find(file);
  if (registered == nullptr) return Int32(env, -EBADF);
  return Int32(
      env, port->staging(stream)->Read(tag, std::move(registered), extent, *checks, result_base));
}

napi_value StagingWrite(napi_env env, napi_callback_info call) {
  const Arguments<14> arguments(env, call);
  const auto& port = arguments.bound<OpenedPort>().port;
  if (port == nullptr) return Int32(env, -EBADF);
  int32_t stream, tag, file;
  cufile::Extent extent{};
  uint64_t zero_from;
  const auto copies = ReadList(env, arguments[7], arguments[8], arguments[9], kCopyDoubles);
  if (!copies || !ReadInt32(env, arguments[0], &stream) || !ReadInt32(env, arguments[1], &tag) ||
      !ReadInt32(env, arguments[2], &file) || !ReadOffset(env, arguments[3], &extent.file_offset) ||
      !ReadOffset(env, arguments[4], &extent.staging_offset) ||
      !ReadOffset(env, arguments[5], &extent.bytes) || !ReadOffset(env, arguments[6], &zero_from) ||
      port->staging(stream) == nullptr)
    return Int32(env, -EINVAL);
  const auto codes = ReadHeldWrite(env, *port, arguments, 10);
  if (!codes) return Int32(env, -EINVAL);
  auto registered = cufile::Library::Instance().Find(file);
  if (registered == nullptr) return Int32(env, -EBADF);
  return Int32(env, port->staging(stream)->Write(tag, std::move(registered), extent, zero_from,
                                                 *copies, *codes));
}

napi_value CloseStream(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  const auto& port = arguments.bound<OpenedPort>().port;
  int32_t stream;
  if (port == nullptr) return Int32(env, -EBADF);
  if (!ReadInt32(env, arguments[0], &stream)) return Int32(env, -EINVAL);
  return Int32(env, port->CloseStream(stream));
}

}  // namespace orbitkv::addon
