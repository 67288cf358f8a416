#pragma once

#include <string>

namespace orbitkv {

/// SHA-256 of a text (FIPS 180-4), as 64 hexadecimal digits. For names of files, not for speed.
std::string Sha256Hex(const std::string& text);

}  // namespace orbitkv
