#pragma once

#include <node_api.h>

#include <string>

namespace orbitkv::testing {

/// The property `testing` of the module: TestControls in test/support/test-controls.ts.
napi_value Controls(napi_env env);

/// Keeps the name of the call that an injected failure hit, for reports.
void NoteFailedCall(const std::string& name);

}  // namespace orbitkv::testing
