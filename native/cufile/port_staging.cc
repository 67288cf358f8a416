#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "base/system_error.h"
#include "cufile/staging.h"
#include "port/port.h"

namespace orbitkv {

// Here and not with the rest of Port: what has no staging slots needs neither cuFile nor CUDA.
int32_t Port::OpenStaging(int32_t device, uint64_t bytes, const StreamOptions& options) try {
  int code = 0;
  StreamContext context{sink_, nullptr, results_};
  auto staging = device == kHostDevice
                     ? cufile::OpenHostStaging(std::move(context), bytes, &code)
                     : cufile::OpenCudaStaging(device, std::move(context), bytes, options, &code);
  if (staging == nullptr) return code;
  streams_.push_back(std::move(staging));
  return static_cast<int32_t>(streams_.size() - 1);
} catch (const SystemError& error) {
  return -error.error();
} catch (const std::bad_alloc&) {
  return -ENOMEM;
}

}  // namespace orbitkv
