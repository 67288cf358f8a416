#pragma once

#include <cstring>
#include <stdexcept>
#include <string>

namespace orbitkv {

/// Thrown only while something is opened; the data path returns -errno instead. Becomes a
/// JavaScript Error with `code` and `errno`.
class SystemError : public std::runtime_error {
 public:
  SystemError(int error, const std::string& message)
      : std::runtime_error(message + ": " + std::strerror(error)), error_(error) {}

  /// A positive errno.
  int error() const { return error_; }

 private:
  int error_;
};

}  // namespace orbitkv
