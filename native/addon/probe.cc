#include "uring/probe.h"

#include <cmath>

#include "addon/functions.h"
#include "addon/node_api_support.h"

namespace orbitkv::addon {

napi_value ProbeHost(napi_env env, napi_callback_info) {
  const uring::ProbeReport probe = uring::Probe();
  napi_value report;
  napi_create_object(env, &report);
  SetBoolean(env, report, "available", probe.available);
  SetNumber(env, report, "errno", probe.error);
  SetText(env, report, "reason", probe.reason);
  SetText(env, report, "kernel", probe.kernel);
  SetNumber(env, report, "setupFlags", probe.setup_flags);
  SetNumber(
      env, report, "memlockBytes",
      probe.memlock_bytes == UINT64_MAX ? HUGE_VAL : static_cast<double>(probe.memlock_bytes));
  return report;
}

}  // namespace orbitkv::addon
