#include "port/port.h"

#include <algorithm>

#include "addon/functions.h"
#include "addon/instance.h"
#include "addon/node_api_support.h"
#include "addon/socket_methods.h"
#include "addon/stream_methods.h"
#include "base/clock.h"

namespace orbitkv::addon {

namespace {

constexpr uint32_t kDepthMax = 4096;
// What close() waits for a device before it gives the port to quarantine.
constexpr int64_t kCloseMs = 5000;

napi_value Pump(napi_env env, napi_callback_info call) {
  const Arguments<3> arguments(env, call);
  const auto& port = arguments.bound<OpenedPort>().port;
  int32_t count;
  int32_t min_complete;
  int32_t timeout_us;
  if (port == nullptr) return Int32(env, -EBADF);
  if (!ReadInt32(env, arguments[0], &count) || !ReadInt32(env, arguments[1], &min_complete) ||
      !ReadInt32(env, arguments[2], &timeout_us))
    return Int32(env, -EINVAL);
  return Int32(env, port->Pump(count, min_complete, timeout_us));
}

napi_value Park(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  const auto& port = arguments.bound<OpenedPort>().port;
  int32_t timeout_us;
  if (port == nullptr) return Int32(env, -EBADF);
  if (!ReadInt32(env, arguments[0], &timeout_us)) return Int32(env, -EINVAL);
  return Int32(env, port->Park(timeout_us));
}

napi_value InFlight(napi_env env, napi_callback_info call) {
  const Arguments<0> arguments(env, call);
  const auto& port = arguments.bound<OpenedPort>().port;
  return Number(env, port == nullptr ? 0 : port->in_flight());
}

napi_value Report(napi_env env, napi_callback_info call) {
  const Arguments<0> arguments(env, call);
  const auto& port = arguments.bound<OpenedPort>().port;
  if (port == nullptr) return ThrowErrno(env, EBADF, "This port is closed");
  const IoQueueReport report = port->report();
  napi_value object;
  napi_create_object(env, &object);
  SetText(env, object, "io", report.io);
  SetNumber(env, object, "setupFlags", report.setup_flags);
  SetBoolean(env, object, "registeredBuffers", report.registered_buffers);
  SetBoolean(env, object, "registeredFiles", report.registered_files);
  return object;
}

napi_value Drain(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  const auto& port = arguments.bound<OpenedPort>().port;
  int32_t max_ms;
  if (!ReadInt32(env, arguments[0], &max_ms) || max_ms < 0)
    return ThrowShape(env, "drain", "milliseconds");
  return Number(env, port == nullptr ? 0 : port->Drain(max_ms));
}

napi_value Close(napi_env env, napi_callback_info call) {
  const Arguments<0> arguments(env, call);
  arguments.bound<OpenedPort>().Close(kCloseMs);
  return Undefined(env);
}

struct Method {
  const char* name;
  napi_callback function;
};

/// The methods of `Port` in src/binding/port.ts, in its order.
constexpr Method kMethods[] = {
    {"report", Contained<Report>},
    {"pump", Counted<Pump>},
    {"park", Counted<Park>},
    {"inFlight", Contained<InFlight>},

    {"openStream", Contained<OpenStream>},
    {"streamReport", Contained<ReportStream>},
    {"copy", Counted<Copy>},
    {"checksum", Counted<Checksum>},
    {"move", Counted<Move>},
    {"checksumMapped", Counted<ChecksumMapped>},
    {"closeStream", Counted<CloseStream>},

    {"codecWorkspace", Contained<ReportCodecWorkspace>},
    {"releaseCodecWorkspace", Counted<ReleaseCodecWorkspace>},
    {"encode", Counted<Encode>},
    {"encodeHeld", Counted<EncodeHeld>},
    {"releaseCodes", Counted<ReleaseCodes>},
    {"decode", Counted<Decode>},

    {"openStaging", Counted<OpenStaging>},
    {"stagingRead", Counted<StagingRead>},
    {"stagingWrite", Counted<StagingWrite>},

    {"listen", Contained<Listen>},
    {"closeListener", Contained<CloseListener>},
    {"connect", Contained<Connect>},
    {"adopt", Contained<Adopt>},
    {"peer", Contained<Peer>},
    {"takeFrame", Counted<TakeFrame>},
    {"takeFds", Contained<TakeFds>},
    {"send", Counted<Send>},
    {"closeConnection", Contained<CloseConnection>},

    {"drain", Contained<Drain>},
    {"close", Contained<Close>},
};

/// A property as memory that JavaScript and native code share; nothing when it is not of that type
/// or not shared.
std::optional<TypedMemory> SharedProperty(napi_env env, napi_value options, const char* name,
                                          napi_typedarray_type type, napi_ref* reference) {
  napi_value value;
  if (napi_get_named_property(env, options, name, &value) != napi_ok) return std::nullopt;
  const auto memory = ReadTypedArray(env, value);
  if (!memory || memory->type != type || !memory->shared || memory->elements == 0)
    return std::nullopt;
  napi_create_reference(env, value, 1, reference);
  return memory;
}

napi_value Property(napi_env env, napi_value object, const char* name) {
  napi_value value;
  return napi_get_named_property(env, object, name, &value) == napi_ok ? value : Undefined(env);
}

napi_value Methods(napi_env env, OpenedPort& opened) {
  napi_value object;
  napi_create_object(env, &object);
  SetNumber(env, object, "id", opened.port->id());
  for (const auto& [name, function] : kMethods) {
    napi_value method;
    napi_create_function(env, name, NAPI_AUTO_LENGTH, function, &opened, &method);
    napi_set_named_property(env, object, name, method);
  }
  return object;
}

bool IsPowerOfTwo(uint64_t number) { return number != 0 && (number & (number - 1)) == 0; }

}  // namespace

napi_value OpenPort(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  const napi_value given = arguments[0];
  auto opened = std::make_unique<OpenedPort>(env);

  const auto submissions =
      SharedProperty(env, given, "submissions", napi_float64_array, &opened->memory[0]);
  const auto completions =
      SharedProperty(env, given, "completions", napi_int32_array, &opened->memory[1]);
  const auto results = SharedProperty(env, given, "results", napi_uint32_array, &opened->memory[2]);
  const auto park_word =
      SharedProperty(env, given, "parkWord", napi_int32_array, &opened->memory[3]);
  if (!submissions || !completions || !results || !park_word)
    return ThrowShape(
        env, "openPort",
        "submissions, completions, results and parkWord as typed arrays over SharedArrayBuffers");
  const auto spans = SharedProperty(env, given, "spans", napi_float64_array, &opened->memory[4]);
  if (!spans && !IsUndefined(env, Property(env, given, "spans")))
    return ThrowShape(env, "openPort", "spans as float64 over a SharedArrayBuffer, or none");
  int32_t depth;
  int32_t pool_number;
  bool enlist;
  if (!ReadInt32(env, Property(env, given, "depth"), &depth) || depth < 1 ||
      static_cast<uint32_t>(depth) > kDepthMax || !IsPowerOfTwo(static_cast<uint64_t>(depth)))
    return ThrowShape(env, "openPort", "depth: a power of two up to 4096");
  if (submissions->elements < static_cast<size_t>(depth) * kSubmissionDoubles)
    return ThrowShape(env, "openPort", "10 float64 of submissions for each entry of depth");
  if (spans && spans->elements < static_cast<size_t>(depth) * kWriteSpansMax * kSpanDoubles)
    return ThrowShape(env, "openPort", "128 float64 of spans for each entry of depth");
  const size_t entries = completions->elements / 4;
  if (entries < 2 * static_cast<size_t>(depth) || !IsPowerOfTwo(entries) ||
      completions->elements % 4 != 0)
    return ThrowShape(env, "openPort",
                      "completions: a power of two of entries, at least twice the depth");
  if (!ReadInt32(env, Property(env, given, "pool"), &pool_number) ||
      !ReadBool(env, Property(env, given, "register"), &enlist))
    return ThrowShape(env, "openPort", "pool: a number, and register: a boolean");
  const auto io = ReadString(env, Property(env, given, "io"));
  if (io != "uring" && io != "posix") return ThrowShape(env, "openPort", "io: uring or posix");

  return Guarded(env, [&]() -> napi_value {
    PortOptions options{};
    options.io = io == "uring" ? IoKind::kUring : IoKind::kPosix;
    options.depth = static_cast<uint32_t>(depth);
    if (pool_number >= 0) {
      options.pool = Pools().Find(pool_number);
      if (options.pool == nullptr)
        throw SystemError(EBADF, "No pool has number " + std::to_string(pool_number));
    }
    options.enlist = enlist;
    options.submissions = {static_cast<const double*>(submissions->memory), submissions->elements};
    options.completions = {static_cast<Completion*>(completions->memory), entries};
    options.results = {static_cast<uint32_t*>(results->memory), results->elements};
    options.park_word = static_cast<std::atomic<int32_t>*>(park_word->memory);
    if (spans) options.spans = {static_cast<const double*>(spans->memory), spans->elements};
    opened->port = std::make_unique<Port>(std::move(options));
    auto& ports = Instance::Of(env).ports;
    ports.push_back(std::move(opened));
    return Methods(env, *ports.back());
  });
}

napi_value WakePort(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t number;
  if (!ReadInt32(env, arguments[0], &number)) return ThrowShape(env, "wake", "a port's number");
  // A port that has closed needs no wake.
  if (const auto sink = PortSinks().Find(number)) sink->Wake();
  return Undefined(env);
}

napi_value WakeAll(napi_env env, napi_callback_info) {
  PortSinks().ForEach([](CompletionSink& sink) { sink.Wake(); });
  return Undefined(env);
}

napi_value Shutdown(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t max_ms;
  if (!ReadInt32(env, arguments[0], &max_ms) || max_ms < 0)
    return ThrowShape(env, "shutdown", "milliseconds");
  // Other threads' rings may be entered by their owners only: they wake now, and their cleanup
  // hooks drain.
  PortSinks().ForEach([](CompletionSink& sink) { sink.Wake(); });
  const int64_t deadline_us = MonotonicUs() + int64_t{max_ms} * 1000;
  for (const auto& opened : Instance::Of(env).ports)
    opened->Close(std::max<int64_t>(0, (deadline_us - MonotonicUs()) / 1000));
  return Undefined(env);
}

}  // namespace orbitkv::addon
