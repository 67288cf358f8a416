#include <cmath>
#include <memory>

#include "addon/functions.h"
#include "addon/node_api_support.h"
#include "memory/registry.h"
#include "memory/slot_table.h"

namespace orbitkv::addon {
namespace {

Registry<SlotTable>& SlotTables() { return RegistryOf<SlotTable>(); }

/// A slot of an open table; throws into JavaScript and is empty when there is none such.
struct Slot {
  std::shared_ptr<SlotTable> table;
  uint32_t index = 0;

  Slot(napi_env env, napi_value number, napi_value slot) {
    int32_t table_number, slot_index;
    if (!ReadInt32(env, number, &table_number) || !ReadInt32(env, slot, &slot_index)) {
      ThrowShape(env, "A slot call", "a slot table and a slot");
      return;
    }
    auto found = SlotTables().Find(table_number);
    if (found == nullptr || slot_index < 0 || static_cast<uint32_t>(slot_index) >= found->slots()) {
      ThrowErrno(
          env, ENOENT,
          "No slot " + std::to_string(slot_index) + " in table " + std::to_string(table_number));
      return;
    }
    table = std::move(found);
    index = static_cast<uint32_t>(slot_index);
  }
  explicit operator bool() const { return table != nullptr; }
};

/// A word as a number of JavaScript, or -1 for one that no client may write.
napi_value WordNumber(napi_env env, uint64_t word) {
  return Number(env, word < uint64_t{1} << 53 ? static_cast<double>(word) : -1);
}

/// (generation, state) of a word that the Manager sets.
bool ReadWord(napi_env env, napi_value generation, napi_value state, uint64_t* out_generation,
              uint32_t* out_state) {
  uint64_t whole;
  if (!ReadOffset(env, generation, out_generation) || !ReadOffset(env, state, &whole) ||
      whole > UINT16_MAX) {
    ThrowShape(env, "A slot call", "a generation and a state");
    return false;
  }
  if (*out_generation >= SlotTable::kGenerationEnd) {
    ThrowErrno(env, EOVERFLOW,
               "Cannot set generation " + std::to_string(*out_generation) + " of a slot");
    return false;
  }
  *out_state = static_cast<uint32_t>(whole);
  return true;
}

bool ReadUint32(napi_env env, napi_value value, uint32_t* out) {
  uint64_t whole;
  if (!ReadOffset(env, value, &whole) || whole > UINT32_MAX) return false;
  *out = static_cast<uint32_t>(whole);
  return true;
}

/// Microseconds with a fraction, as nanoseconds.
bool ReadMicroseconds(napi_env env, napi_value value, uint64_t* out_ns) {
  double us;
  if (!ReadDouble(env, value, &us) || !(us >= 0 && us < 9e12)) return false;
  *out_ns = static_cast<uint64_t>(std::llround(us * 1000));
  return true;
}

}  // namespace

napi_value CreateSlots(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  uint32_t slots;
  if (!ReadUint32(env, arguments[0], &slots))
    return ThrowShape(env, "createSlots", "a number of slots");
  return Guarded(env, [&] {
    const auto table = std::make_shared<SlotTable>(slots);
    UniqueFd event = table->DuplicateEventFd();
    napi_value report;
    napi_create_object(env, &report);
    SetNumber(env, report, "slots", SlotTables().Add(table));
    SetNumber(env, report, "clientFd", table->TakeClientFd().Release());
    SetNumber(env, report, "managerFd", table->TakeManagerFd().Release());
    SetNumber(env, report, "eventFd", event.Release());
    return report;
  });
}

napi_value SlotClientWord(napi_env env, napi_callback_info call) {
  const Arguments<2> arguments(env, call);
  const Slot slot(env, arguments[0], arguments[1]);
  return slot ? WordNumber(env, slot.table->ClientWord(slot.index)) : nullptr;
}

napi_value SlotFence(napi_env env, napi_callback_info call) {
  const Arguments<2> arguments(env, call);
  const Slot slot(env, arguments[0], arguments[1]);
  return slot ? WordNumber(env, slot.table->Fence(slot.index)) : nullptr;
}

napi_value SlotManagerWord(napi_env env, napi_callback_info call) {
  const Arguments<2> arguments(env, call);
  const Slot slot(env, arguments[0], arguments[1]);
  return slot ? WordNumber(env, slot.table->ManagerWord(slot.index)) : nullptr;
}

napi_value SlotState(napi_env env, napi_callback_info call) {
  const Arguments<4> arguments(env, call);
  const Slot slot(env, arguments[0], arguments[1]);
  uint64_t generation;
  uint32_t state;
  if (!slot || !ReadWord(env, arguments[2], arguments[3], &generation, &state)) return nullptr;
  slot.table->SetWord(slot.index, generation, state);
  return Undefined(env);
}

napi_value SlotFinish(napi_env env, napi_callback_info call) {
  const Arguments<9> arguments(env, call);
  const Slot slot(env, arguments[0], arguments[1]);
  uint64_t generation;
  uint32_t state;
  if (!slot || !ReadWord(env, arguments[2], arguments[3], &generation, &state)) return nullptr;
  SlotResult result;
  if (!ReadUint32(env, arguments[4], &result.error_code) ||
      !ReadUint32(env, arguments[5], &result.first_failed) ||
      !ReadOffset(env, arguments[6], &result.bytes) ||
      !ReadMicroseconds(env, arguments[7], &result.admit_ns) ||
      !ReadMicroseconds(env, arguments[8], &result.done_ns))
    return ThrowShape(env, "slotFinish", "an error code, an index, bytes and two times");
  slot.table->Finish(slot.index, generation, state, result);
  return Undefined(env);
}

napi_value ReleaseSlots(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t number;
  if (!ReadInt32(env, arguments[0], &number))
    return ThrowShape(env, "releaseSlots", "a slot table");
  SlotTables().Remove(number);
  return Undefined(env);
}

}  // namespace orbitkv::addon
