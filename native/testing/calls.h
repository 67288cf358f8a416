#pragma once

namespace orbitkv::testing {

/// True once inside a call of slotFinish, on its thread.
bool TakeFinishing();

}  // namespace orbitkv::testing
