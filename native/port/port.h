#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cufile/staging.h"
#include "device/device.h"
#include "net/sockets.h"
#include "port/completion_sink.h"
#include "port/io_queue.h"
#include "port/submission.h"

namespace orbitkv {

/// A name in PortSinks().
class RegisteredSink {
 public:
  explicit RegisteredSink(std::shared_ptr<CompletionSink> sink)
      : number_(PortSinks().Add(std::move(sink))) {}
  RegisteredSink(const RegisteredSink&) = delete;
  RegisteredSink& operator=(const RegisteredSink&) = delete;
  ~RegisteredSink() { PortSinks().Remove(number_); }
  int32_t number() const { return number_; }

 private:
  const int32_t number_;
};

enum class IoKind { kUring, kPosix };

struct PortOptions {
  IoKind io;
  uint32_t depth;
  std::shared_ptr<Pool> pool;
  bool enlist;
  /// Memory of SharedArrayBuffers; it outlives the port because the port is closed by its own
  /// thread.
  std::span<const double> submissions;
  std::span<Completion> completions;
  std::span<uint32_t> results;
  std::atomic<int32_t>* park_word;
  /// kWriteSpansMax for each entry of `submissions`; empty: no writes of spans.
  std::span<const double> spans = {};
};

/// An actor's place to submit, reap and sleep: reads and writes, device streams and sockets behind
/// one wake-up. All calls come from the thread that made it; others reach it through its
/// CompletionSink.
class Port {
 public:
  /// Throws SystemError.
  explicit Port(PortOptions options);
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  int32_t id() const { return id_.number(); }
  IoQueueReport report() const { return queue_->report(); }
  /// Returns completions written or -errno, as in src/binding/port.ts. `timeout_us` is capped as in
  /// Park.
  int Pump(int32_t count, int32_t min_complete, int32_t timeout_us);
  int Park(int32_t timeout_us);
  /// Reads and writes submitted and not reaped.
  uint32_t in_flight() const { return depth_ - static_cast<uint32_t>(free_slots_.size()); }
  /// Opens a stream of a device; returns its number. Throws SystemError.
  int32_t OpenStream(Device& device = HostDevice(), const StreamOptions& options = {});
  /// Opens a staging slot of a device (kHostDevice or an ordinal); returns its stream's number,
  /// -errno or minus a cuFile status.
  int32_t OpenStaging(int32_t device, uint64_t bytes, const StreamOptions& options = {});
  /// As in src/binding/streams.ts.
  int32_t CloseStream(int32_t number);
  /// Null when there is no such stream.
  Stream* stream(int32_t number) const;
  /// Null when there is no such stream or it has no slot.
  cufile::Staging* staging(int32_t number) const;
  /// The port's sockets; made, and slept on, from the first call. Throws SystemError.
  net::Sockets& OpenSockets();
  /// Null when none were opened.
  net::Sockets* sockets() const { return sockets_.get(); }

  /// Waits for what is in flight (cancelling nothing); completions are kept for the next Pump.
  /// Returns what remains.
  uint32_t Drain(int64_t max_ms);
  /// Asks the kernel to give up reads and writes where it can, and streams what they have not
  /// started; their completions still come.
  void Cancel();
  /// Before the end: nobody will ask for completions, so none is kept, and draining allocates
  /// nothing.
  void DropCompletions() { drops_ = true; }
  /// Before quarantine: peers are let go, and streams touch no memory of JavaScript any more,
  /// whatever is in flight.
  void Detach();

 private:
  /// A read or write between submission and completion: owns the file, names the memory.
  struct Slot {
    Submission submission;
    uint8_t attempts;
  };

  /// What ends a sleep besides enough completions and time.
  enum class Until { kEnough, kWoken };

  /// Takes an entry of `submissions` to the queue, or answers it at once.
  void Admit(size_t entry);
  /// Where the spans of the write in a slot are kept, until its result was reaped; empty for a port
  /// that takes none.
  std::span<iovec> VectorOf(uint32_t slot);
  static int32_t Verify(const Submission& read);
  int Collect(uint32_t min_complete, int64_t wait_us, Until until);
  /// Takes everything that is there without entering the kernel; true when the owner was woken.
  bool Reap();
  void TakeSink();
  void PollStreams();
  /// Before a sleep: polls while a stream's end is near, then has the ends wake us. True when
  /// something has come.
  bool AwaitStreams(int64_t deadline_us, Until until);
  void TakeSockets();
  void ReapIo();
  void Emit(const Completion& completion);
  void EmitBacklog();
  size_t StreamsInFlight() const;

  const uint32_t depth_;
  const std::span<const double> submissions_;
  const std::span<const double> spans_;
  const std::span<Completion> completions_;
  std::atomic<int32_t>* const park_word_;
  const std::shared_ptr<Pool> pool_;
  const std::span<uint32_t> results_;
  const std::shared_ptr<CompletionSink> sink_;
  /// Its name for wake(), for as long as the port lives.
  const RegisteredSink id_;
  /// Before the queue: a queue that ends must not outlive what its requests name.
  std::vector<Slot> slots_;
  std::vector<iovec> vectors_;
  std::vector<uint32_t> free_slots_;
  std::vector<Completion> taken_;
  /// Completions that found no room in `completions_`.
  std::vector<Completion> backlog_;
  size_t written_ = 0;
  bool resubmitted_ = false;
  bool drops_ = false;
  std::unique_ptr<net::Sockets> sockets_;
  std::unique_ptr<IoQueue> queue_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace orbitkv
