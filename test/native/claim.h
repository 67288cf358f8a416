#pragma once

#include <cstdio>
#include <cstdlib>

/// For programs of claims: the first that does not hold is named, and ends the process with 1 at
/// once, whatever other threads are at.
#define CLAIM(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition); \
      std::_Exit(1);                                                       \
    }                                                                      \
  } while (false)
