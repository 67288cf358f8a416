#pragma once

#include <array>
#include <cstddef>
#include <utility>

namespace orbitkv {

/// A queue of at most N things that allocates nothing, so that whoever must not fail can use it.
template <class T, size_t N>
class FixedRing {
 public:
  static constexpr size_t kCapacity = N;

  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == N; }
  size_t size() const { return size_; }

  /// Only when not full.
  void push_back(T thing) { things_[(first_ + size_++) % N] = std::move(thing); }
  /// The three below: only when not empty.
  T& front() { return things_[first_]; }
  T& back() { return things_[(first_ + size_ - 1) % N]; }
  void pop_front() {
    things_[first_] = T{};
    first_ = (first_ + 1) % N;
    --size_;
  }
  /// The one that is `index` behind the front.
  T& operator[](size_t index) { return things_[(first_ + index) % N]; }
  void clear() {
    while (!empty()) pop_front();
  }

 private:
  std::array<T, N> things_{};
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace orbitkv
