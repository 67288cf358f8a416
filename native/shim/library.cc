#include "shim/library.h"

#include <dlfcn.h>
#include <glob.h>

#include <algorithm>
#include <cstdlib>

namespace orbitkv::shim {

void* Library::Symbol(const char* name) const {
  return handle == nullptr ? nullptr : dlsym(handle, name);
}

Library OpenLibrary(const char* override_name, const std::vector<std::string>& candidates) {
  Library library;
  const char* given = std::getenv(override_name);
  const bool overridden = given != nullptr && *given != '\0';
  if (overridden && *given != '/') {
    library.reason = std::string(override_name) + " is no absolute path: " + given;
    return library;
  }
  for (const std::string& path : overridden ? std::vector<std::string>{given} : candidates) {
    library.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library.handle != nullptr) {
      library.path = path;
      library.reason.clear();
      return library;
    }
    const char* error = dlerror();
    if (!library.reason.empty()) library.reason += "; ";
    library.reason += error == nullptr ? path + " does not open" : error;
  }
  return library;
}

std::vector<std::string> Matches(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  std::sort(paths.rbegin(), paths.rend());
  return paths;
}

}  // namespace orbitkv::shim
