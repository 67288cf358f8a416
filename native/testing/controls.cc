#include "testing/controls.h"

#include <mutex>

#include "addon/node_api_support.h"
#include "testing/faults.h"

extern "C" napi_status __real_napi_create_function(napi_env env, const char* name, size_t length,
                                                   napi_callback function, void* bound,
                                                   napi_value* result);
extern "C" napi_status __real_napi_get_cb_info(napi_env env, napi_callback_info call, size_t* count,
                                               napi_value* values, napi_value* self, void** bound);

namespace orbitkv::testing {
namespace {

std::mutex failed_mutex;
std::string failed_call;

struct Given {
  Fault fault = Fault::kCount;
  double kth = 0;
  bool sticky = false;
  int32_t error = 0;
};

/// (fault, kth, sticky, error), as many as there are.
Given Read(napi_env env, napi_callback_info call) {
  size_t count = 4;
  napi_value values[4];
  __real_napi_get_cb_info(env, call, &count, values, nullptr, nullptr);
  Given given;
  int32_t fault = -1;
  addon::ReadInt32(env, values[0], &fault);
  if (fault < 0 || fault >= static_cast<int32_t>(Fault::kCount)) {
    addon::ThrowShape(env, "testing", "the number of a fault");
    return given;
  }
  given.fault = static_cast<Fault>(fault);
  addon::ReadDouble(env, values[1], &given.kth);
  addon::ReadBool(env, values[2], &given.sticky);
  addon::ReadInt32(env, values[3], &given.error);
  return given;
}

napi_value ArmFault(napi_env env, napi_callback_info call) {
  const auto [fault, kth, sticky, error] = Read(env, call);
  if (fault == Fault::kCount) return nullptr;
  Arm(fault, static_cast<uint64_t>(kth), sticky, error);
  NoteFailedCall("");
  return addon::Undefined(env);
}

napi_value DisarmFault(napi_env env, napi_callback_info call) {
  const Given given = Read(env, call);
  if (given.fault == Fault::kCount) return nullptr;
  Disarm(given.fault);
  return addon::Undefined(env);
}

napi_value FaultFails(napi_env env, napi_callback_info call) {
  const Given given = Read(env, call);
  if (given.fault == Fault::kCount) return nullptr;
  return addon::Boolean(env, Fails(given.fault));
}

napi_value CountsOf(napi_env env, napi_callback_info call) {
  const Given given = Read(env, call);
  if (given.fault == Fault::kCount) return nullptr;
  const auto [seen, failed] = Counts(given.fault);
  napi_value counts;
  napi_create_object(env, &counts);
  addon::SetNumber(env, counts, "seen", static_cast<double>(seen));
  addon::SetNumber(env, counts, "failed", static_cast<double>(failed));
  const std::lock_guard lock(failed_mutex);
  addon::SetText(env, counts, "call", failed_call);
  return counts;
}

void Add(napi_env env, napi_value object, const char* name, napi_callback function) {
  napi_value value;
  __real_napi_create_function(env, name, NAPI_AUTO_LENGTH, function, nullptr, &value);
  napi_set_named_property(env, object, name, value);
}

}  // namespace

void NoteFailedCall(const std::string& name) {
  const std::lock_guard lock(failed_mutex);
  failed_call = name;
}

napi_value Controls(napi_env env) {
  napi_value controls;
  napi_create_object(env, &controls);
  Add(env, controls, "arm", ArmFault);
  Add(env, controls, "disarm", DisarmFault);
  Add(env, controls, "fails", FaultFails);
  Add(env, controls, "counts", CountsOf);
  return controls;
}

}  // namespace orbitkv::testing
