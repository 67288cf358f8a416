#include "testing/contracts.h"

#include <cerrno>

namespace orbitkv::testing {
namespace {

/// Calls that are not here answer in every case: they look something up, close, release or wake.
constexpr Contract kContracts[] = {
    {"pump", Failure::kReturns, ENOMEM},          {"park", Failure::kReturns, ENOMEM},
    {"copy", Failure::kReturns, ENOMEM},          {"checksum", Failure::kReturns, ENOMEM},
    {"takeFrame", Failure::kReturns, ENOMEM},     {"send", Failure::kReturns, EAGAIN},
    {"slotPoll", Failure::kReturns, EAGAIN},

    {"openPool", Failure::kThrows, ENOMEM},       {"openShard", Failure::kThrows, EIO},
    {"lockPath", Failure::kThrows, EMFILE},       {"createMemory", Failure::kThrows, EMFILE},
    {"importMemory", Failure::kThrows, ENOMEM},   {"shareBuffer", Failure::kThrows, ENOMEM},
    {"borrowMapping", Failure::kThrows, ENOENT},  {"mappingView", Failure::kThrows, ENOENT},
    {"defineTemplate", Failure::kThrows, EINVAL}, {"createSlots", Failure::kThrows, EMFILE},
    {"slotState", Failure::kThrows, ENOENT},      {"slotFinish", Failure::kThrows, ENOENT},
    {"openSlots", Failure::kThrows, ENOMEM},      {"socketPair", Failure::kThrows, EMFILE},
    {"openPort", Failure::kThrows, ENOMEM},       {"openStream", Failure::kThrows, EAGAIN},
    {"listen", Failure::kThrows, EADDRINUSE},     {"connect", Failure::kThrows, ECONNREFUSED},
    {"adopt", Failure::kThrows, EMFILE},          {"peer", Failure::kThrows, EBADF},
};

}  // namespace

Contract ContractOf(std::string_view call) {
  for (const Contract& contract : kContracts)
    if (contract.call == call) return contract;
  return {call, Failure::kNever, 0};
}

}  // namespace orbitkv::testing
