#pragma once

#include <string_view>

namespace orbitkv::testing {

/// How a call of the addon says that it failed, by src/binding.
enum class Failure { kNever, kReturns, kThrows };

struct Contract {
  std::string_view call;
  Failure failure;
  /// What an injected failure says.
  int error;
};

/// The contract of a call; kNever for one that cannot fail for the system's sake.
Contract ContractOf(std::string_view call);

}  // namespace orbitkv::testing
