#pragma once

#include <cstdint>
#include <memory>

#include "cuda/item_codes.h"
#include "device/held_codes.h"

namespace orbitkv::cuda {

/// The hold of a stream on its workspace of encoding.
///
///   none ──Begin──▶ coding ──Ended, well──▶ held ──Release──▶ none
///     ▲                └─────Ended, with an error──────────────┘
///
/// | state  | the workspace                                                             |
/// | ------ | ------------------------------------------------------------------------- |
/// | none   | is for the next encoding                                                  |
/// | coding | is written by the one job that is to be held; nobody else may encode      |
/// | held   | stays as that job left it, whoever reads it; nobody encodes, grows, frees |
///
/// Nothing but Begin() allocates.
class CodeHold {
 public:
  /// `encoding` outlives this.
  explicit CodeHold(CodeWorkspace& encoding) : encoding_(encoding) {}

  bool none() const { return state_ == State::kNone; }
  /// What is held; null in the other states.
  std::shared_ptr<const HeldCodes> codes() const {
    return state_ == State::kHeld ? held_ : nullptr;
  }
  /// Somebody reads what is held.
  bool lent() const { return held_.use_count() > 1; }

  /// A job of `items` items is accepted; its workspace is to be held. Throws std::bad_alloc.
  void Begin(int32_t device, size_t items);
  /// That job has ended; `work` is its, with its one batch.
  void Ended(const CodeWork& work, int32_t result);
  /// It was not accepted after all.
  void Abandon();
  /// 0; -EBUSY: it is being made or read; -EINVAL: nothing is held.
  int Release();

 private:
  enum class State { kNone, kCoding, kHeld };

  CodeWorkspace& encoding_;
  State state_ = State::kNone;
  std::shared_ptr<HeldCodes> held_;
  uint64_t bytes_ = 0;
};

}  // namespace orbitkv::cuda
