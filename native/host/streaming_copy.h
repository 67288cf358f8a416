#pragma once

#include <cstddef>

namespace orbitkv {

/// memcpy past the caches: the destination is not read first, which saves a third of the memory
/// traffic. For large copies that nobody on this side reads soon. Where the processor has no such
/// stores it is memcpy.
void StreamingCopy(std::byte* to, const std::byte* from, size_t bytes);

/// Orders all streaming copies of this thread before what it stores next.
void StreamingFence();

}  // namespace orbitkv
