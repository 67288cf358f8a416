#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "device.h"

#define CLAIM(condition, ...)                    \
  do {                                           \
    if (!(condition)) {                          \
      std::printf(__VA_ARGS__);                  \
      std::printf(": not so: " #condition "\n"); \
      std::exit(1);                              \
    }                                            \
  } while (false)

/// Memory that ends where nothing is mapped: who reads or writes behind it dies.
class Edged {
 public:
  explicit Edged(size_t bytes) : bytes_(bytes), mapped_((bytes + 4095) / 4096 * 4096 + 4096) {
    void* base = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) device::Die("no memory");
    base_ = static_cast<uint8_t*>(base);
    mprotect(base_ + mapped_ - 4096, 4096, PROT_NONE);
  }
  Edged(const Edged&) = delete;
  Edged& operator=(const Edged&) = delete;
  ~Edged() { munmap(base_, mapped_); }
  uint8_t* data() { return base_ + mapped_ - 4096 - bytes_; }
  size_t size() const { return bytes_; }

 private:
  size_t bytes_;
  size_t mapped_;
  uint8_t* base_;
};

inline uint64_t Address(const uint8_t* pointer) { return reinterpret_cast<uint64_t>(pointer); }
