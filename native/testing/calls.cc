// Every call of the addon from JavaScript, in the test build: the linker sends the functions with
// which the surface is made through here, so that a call can be held, ended or made to fail before
// the release build's own function runs.
#include "testing/calls.h"

#include <node_api.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "addon/instance.h"
#include "addon/node_api_support.h"
#include "testing/contracts.h"
#include "testing/controls.h"
#include "testing/faults.h"
#include "testing/points.h"
#include "testing/port_watch.h"

extern "C" {
napi_status __real_napi_create_function(napi_env env, const char* name, size_t length,
                                        napi_callback function, void* bound, napi_value* result);
napi_status __real_napi_get_cb_info(napi_env env, napi_callback_info call, size_t* count,
                                    napi_value* values, napi_value* self, void** bound);
napi_status __real_napi_set_named_property(napi_env env, napi_value object, const char* name,
                                           napi_value value);
}

namespace orbitkv::testing {
namespace {

/// Types of frames in src/shared/layout/wire/messages.ts.
constexpr uint16_t kRestoreFrame = 8;
constexpr uint16_t kPublishFrame = 9;
/// SLOT_STATE.done.
constexpr double kDone = 3;
constexpr size_t kArgumentsMax = 10;

/// A function of the surface as the release build made it.
struct Original {
  std::string name;
  napi_callback function;
  void* bound;
  Contract contract;
};

/// The arguments of one call.
struct Call {
  napi_env env;
  const Original& original;
  std::array<napi_value, kArgumentsMax> values{};

  bool Is(std::string_view name) const { return original.name == name; }
  double NumberAt(size_t index) const {
    double number = -1;
    napi_get_value_double(env, values[index], &number);
    return number;
  }
};

thread_local bool finishing = false;
/// This thread has taken requests from clients: it is a Manager's, and what it finishes with
/// success is a publication (restores are finished by their lanes).
thread_local bool serves = false;
thread_local std::unordered_map<const void*, PortWatch> watched;
/// Calls with which this thread has asked whether there is news, since it last did anything else.
thread_local std::vector<const void*> asked;

/// Shared memory of openPort's options.
template <class T>
std::span<T> MemoryOf(napi_env env, napi_value options, const char* name) {
  napi_value value;
  napi_get_named_property(env, options, name, &value);
  const auto memory = addon::ReadTypedArray(env, value);
  if (!memory) return {};
  return {static_cast<T*>(memory->memory), memory->elements};
}

void PortOpened(const Call& call) {
  const auto completions = MemoryOf<int32_t>(call.env, call.values[0], "completions");
  watched[addon::Instance::Of(call.env).ports.back().get()] = {
      MemoryOf<const double>(call.env, call.values[0], "submissions"),
      {reinterpret_cast<Completion*>(completions.data()), completions.size() / 4},
      {}};
}

void FrameTaken(const Call& call) {
  serves = true;
  const auto frame = addon::ReadBytes(call.env, call.values[1]);
  uint16_t type;
  if (!frame || frame->size() < sizeof type) return;
  std::memcpy(&type, frame->data(), sizeof type);
  if (type == kPublishFrame) Pass(Point::kPublish);
  if (type == kRestoreFrame) Pass(Point::kRestore);
}

void Before(const Call& call) {
  if (call.Is("copy")) Pass(Point::kCopy);
  if (call.Is("slotFinish")) {
    if (serves && call.NumberAt(3) == kDone) Pass(Point::kPublishAcknowledgement);
    finishing = true;
  }
  if (call.Is("pump"))
    watched[call.original.bound].Submitting(static_cast<int32_t>(call.NumberAt(0)));
}

void After(const Call& call, napi_value result) {
  finishing = false;
  if (result == nullptr) return;  // it threw
  if (call.Is("openPort")) return PortOpened(call);
  double number = -1;
  napi_get_value_double(call.env, result, &number);
  if (call.Is("pump") || call.Is("park"))
    watched[call.original.bound].Completed(static_cast<int32_t>(number));
  if (call.Is("takeFrame") && number > 0) FrameTaken(call);
}

napi_value Fail(const Call& call) {
  const auto& [name, failure, error] = call.original.contract;
  // adopt() owns the descriptor from the first, whatever comes.
  if (call.Is("adopt")) close(static_cast<int>(call.NumberAt(0)));
  if (failure == Failure::kReturns) return addon::Int32(call.env, -error);
  return addon::ThrowErrno(call.env, error, "Injected failure of " + call.original.name);
}

/// Whether a failure of this call would be another one than those before it: a loop that asks until
/// there is news counts once, however often it goes round.
bool IsNew(const Call& call) {
  const bool asks = call.Is("pump") || call.Is("park") || call.Is("slotPoll");
  if (!asks) {
    asked.clear();
    return true;
  }
  if (std::find(asked.begin(), asked.end(), &call.original) != asked.end()) return false;
  asked.push_back(&call.original);
  return true;
}

napi_value Intercept(napi_env env, napi_callback_info info) {
  void* found = nullptr;
  size_t count = kArgumentsMax;
  std::array<napi_value, kArgumentsMax> values;
  __real_napi_get_cb_info(env, info, &count, values.data(), nullptr, &found);
  const Call call{env, *static_cast<Original*>(found), values};
  bool may_fail = call.original.contract.failure != Failure::kNever;
  {
    const Quiet quiet;
    Before(call);
    may_fail = may_fail && IsNew(call);
  }
  const bool fails = may_fail && Fails(Fault::kCall);
  if (fails) {
    const Quiet quiet;
    NoteFailedCall(call.original.name);
    return Fail(call);
  }
  napi_value result = call.original.function(env, info);
  const Quiet quiet;
  After(call, result);
  if (!TakeDeath()) return result;
  napi_throw_error(env, nullptr, "A test ended this thread at a named point");
  return nullptr;
}

}  // namespace

bool TakeFinishing() {
  const bool taken = finishing;
  finishing = false;
  return taken;
}

}  // namespace orbitkv::testing

using orbitkv::testing::ContractOf;
using orbitkv::testing::Intercept;
using orbitkv::testing::Original;
using orbitkv::testing::Quiet;

extern "C" {

napi_status __wrap_napi_create_function(napi_env env, const char* name, size_t length,
                                        napi_callback function, void* bound, napi_value* result) {
  const Quiet quiet;
  // As long as the function, which the collector may keep to the end of the process.
  auto* original =
      std::make_unique<Original>(Original{name, function, bound, ContractOf(name)}).release();
  return __real_napi_create_function(env, name, length, Intercept, original, result);
}

napi_status __wrap_napi_get_cb_info(napi_env env, napi_callback_info call, size_t* count,
                                    napi_value* values, napi_value* self, void** bound) {
  const napi_status status = __real_napi_get_cb_info(env, call, count, values, self, bound);
  if (bound != nullptr) *bound = static_cast<Original*>(*bound)->bound;
  return status;
}

napi_status __wrap_napi_set_named_property(napi_env env, napi_value object, const char* name,
                                           napi_value value) {
  const Quiet quiet;
  // The first property of the module: the controls ride along.
  if (std::strcmp(name, "probe") == 0)
    __real_napi_set_named_property(env, object, "testing", orbitkv::testing::Controls(env));
  return __real_napi_set_named_property(env, object, name, value);
}

}  // extern "C"
