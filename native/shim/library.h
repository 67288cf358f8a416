#pragma once

#include <string>
#include <vector>

/// Libraries that are opened at run time and never linked: a machine without them runs all the
/// same.
namespace orbitkv::shim {

/// A library that stays open until the process ends: drivers register work for its exit.
struct Library {
  /// Null when nothing could be opened; then `reason` says what was tried.
  void* handle = nullptr;
  std::string path;
  std::string reason;

  /// Null when the library has no such symbol.
  void* Symbol(const char* name) const;
};

/// Opens the file that the environment variable `override_name` names, an absolute path and then
/// nothing else, or else the first of `candidates` (names for the loader, or paths) that opens.
/// Symbols stay local. Never throws.
Library OpenLibrary(const char* override_name, const std::vector<std::string>& candidates);

/// Paths that match a pattern of the shell, sorted downwards, so that newer versions come first.
std::vector<std::string> Matches(const std::string& pattern);

}  // namespace orbitkv::shim
