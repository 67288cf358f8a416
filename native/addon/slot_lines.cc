#include "memory/slot_lines.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <memory>
#include <string>

#include "addon/functions.h"
#include "addon/node_api_support.h"
#include "memory/registry.h"
#include "memory/slot_table.h"

namespace orbitkv::addon {
namespace {

Registry<SlotLines>& AllSlotLines() { return RegistryOf<SlotLines>(); }

/// Doubles that slotPoll fills.
constexpr size_t kResultDoubles = 7;

/// A line of open slot lines; throws into JavaScript and is empty when there is none such.
struct Line {
  std::shared_ptr<SlotLines> lines;
  uint32_t slot = 0;

  Line(napi_env env, napi_value number, napi_value index) {
    int32_t lines_number, slot_index;
    if (!ReadInt32(env, number, &lines_number) || !ReadInt32(env, index, &slot_index)) {
      ThrowShape(env, "A slot call", "slot lines and a slot");
      return;
    }
    auto found = AllSlotLines().Find(lines_number);
    if (found == nullptr || slot_index < 0 || static_cast<uint32_t>(slot_index) >= found->slots()) {
      ThrowErrno(
          env, ENOENT,
          "No slot " + std::to_string(slot_index) + " in lines " + std::to_string(lines_number));
      return;
    }
    lines = std::move(found);
    slot = static_cast<uint32_t>(slot_index);
  }
  explicit operator bool() const { return lines != nullptr; }
};

bool ReadGeneration(napi_env env, napi_value value, uint64_t* out) {
  if (ReadOffset(env, value, out) && *out > 0 && *out < SlotTable::kGenerationEnd) return true;
  ThrowErrno(env, EOVERFLOW, "Cannot use a generation outside 1 to 2^37 - 1 for a slot");
  return false;
}

double Microseconds(uint64_t ns) { return static_cast<double>(ns) / 1000; }

}  // namespace

napi_value OpenSlots(napi_env env, napi_callback_info call) {
  const Arguments<3> arguments(env, call);
  int32_t client_fd, manager_fd;
  uint64_t slots;
  if (!ReadInt32(env, arguments[0], &client_fd) || !ReadInt32(env, arguments[1], &manager_fd) ||
      !ReadOffset(env, arguments[2], &slots) || slots > SlotTable::kSlotsMax)
    return ThrowShape(env, "openSlots", "two descriptors and a number of slots");
  return Guarded(env, [&] {
    return Int32(env, AllSlotLines().Add(std::make_shared<SlotLines>(
                          client_fd, manager_fd, static_cast<uint32_t>(slots))));
  });
}

napi_value SlotSubmit(napi_env env, napi_callback_info call) {
  const Arguments<5> arguments(env, call);
  const Line line(env, arguments[0], arguments[1]);
  uint64_t generation, op_id, fence;
  if (!line || !ReadGeneration(env, arguments[2], &generation)) return nullptr;
  if (!ReadOffset(env, arguments[3], &op_id) || !ReadOffset(env, arguments[4], &fence))
    return ThrowShape(env, "slotSubmit", "an op id and a fence");
  line.lines->Submit(line.slot, generation, op_id, fence);
  return Undefined(env);
}

napi_value SlotRaiseFence(napi_env env, napi_callback_info call) {
  const Arguments<3> arguments(env, call);
  const Line line(env, arguments[0], arguments[1]);
  if (!line) return nullptr;
  uint64_t fence;
  if (!ReadOffset(env, arguments[2], &fence)) return ThrowShape(env, "slotRaiseFence", "a fence");
  line.lines->RaiseFence(line.slot, fence);
  return Undefined(env);
}

napi_value SlotFree(napi_env env, napi_callback_info call) {
  const Arguments<3> arguments(env, call);
  const Line line(env, arguments[0], arguments[1]);
  uint64_t generation;
  if (!line || !ReadGeneration(env, arguments[2], &generation)) return nullptr;
  line.lines->Free(line.slot, generation);
  return Undefined(env);
}

napi_value SlotPoll(napi_env env, napi_callback_info call) {
  const Arguments<3> arguments(env, call);
  const Line line(env, arguments[0], arguments[1]);
  if (!line) return nullptr;
  const auto result = ReadDoubles(env, arguments[2]);
  if (!result || result->size() < kResultDoubles)
    return ThrowShape(env, "slotPoll", "a Float64Array of 7");
  uint64_t word;
  SlotLine read{};
  if (!line.lines->Poll(line.slot, &word, &read) || word >= uint64_t{1} << 53)
    return Int32(env, -EAGAIN);
  if (SlotLines::Terminal(word)) {
    const double values[kResultDoubles] = {static_cast<double>(read.op_id),
                                           static_cast<double>(read.error_code),
                                           static_cast<double>(read.first_failed),
                                           static_cast<double>(read.bytes),
                                           Microseconds(read.admit_ns),
                                           Microseconds(read.done_ns),
                                           static_cast<double>(read.layers)};
    std::copy(std::begin(values), std::end(values), result->begin());
  }
  return Number(env, static_cast<double>(word));
}

napi_value CloseSlots(napi_env env, napi_callback_info call) {
  const Arguments<1> arguments(env, call);
  int32_t number;
  if (!ReadInt32(env, arguments[0], &number)) return ThrowShape(env, "closeSlots", "slot lines");
  AllSlotLines().Remove(number);
  return Undefined(env);
}

}  // namespace orbitkv::addon
