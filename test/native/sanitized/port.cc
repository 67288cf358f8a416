// What a port promises, as one program, so that sanitizers can watch it: sanitizers.test.ts
// compiles and runs it under each. The only argument is an empty folder. Exits 0 when every claim
// held, else names the first that did not.
#include "port/port.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../claim.h"
#include "base/clock.h"
#include "codec/crc32.h"
#include "files/shard_file.h"
#include "net/unix_socket.h"
#include "uring/probe.h"

using namespace orbitkv;

namespace {

constexpr uint32_t kDepth = 32;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr int64_t kPatienceUs = 60'000'000;

std::string folder;

/// A port with the memory that JavaScript would bring.
struct Bench {
  std::vector<double> submissions = std::vector<double>(kDepth * kSubmissionDoubles);
  std::vector<Completion> completions = std::vector<Completion>(2 * kDepth);
  std::vector<uint32_t> results = std::vector<uint32_t>(16);
  std::vector<double> spans = std::vector<double>(kDepth * kWriteSpansMax * kSpanDoubles);
  std::atomic<int32_t> park_word{2};
  std::shared_ptr<Pool> pool = Pool::Open(4 * kMiB);
  Port port;

  explicit Bench(IoKind io)
      : port({io, kDepth, pool, true, submissions, completions, results, &park_word, spans}) {}

  void Put(uint32_t index, double op, int32_t tag, int32_t file, uint64_t file_offset,
           uint64_t pool_offset, uint64_t bytes, uint32_t crc) {
    const double fields[] = {op,
                             static_cast<double>(tag),
                             static_cast<double>(file),
                             static_cast<double>(file_offset),
                             static_cast<double>(pool_offset),
                             static_cast<double>(bytes),
                             static_cast<double>(bytes),
                             static_cast<double>(bytes),
                             static_cast<double>(crc)};
    std::copy(std::begin(fields), std::end(fields),
              submissions.begin() + index * kSubmissionDoubles);
  }

  std::vector<Completion> Taken(int count) {
    CLAIM(count >= 0);
    return {completions.begin(), completions.begin() + count};
  }
};

/// Random reads, each verified, at full depth, while other threads wake the port and post to it.
void ReadsUnderFire(IoKind io) {
  constexpr int kReads = 2000;
  constexpr int kPosts = 5000;
  Bench bench(io);
  const auto file = OpenShardFile(folder + "/shard", 2 * kMiB, false);
  const int32_t number = Files().Add(file);
  std::mt19937 random(7);
  for (size_t i = 0; i < 2 * kMiB; ++i) bench.pool->base()[i] = static_cast<std::byte>(random());
  const std::vector<std::byte> content(bench.pool->base(), bench.pool->base() + 2 * kMiB);
  bench.Put(0, 1, 1, number, 0, 0, 2 * kMiB, 0);
  int done = bench.port.Pump(1, 0, 0);
  const int64_t written_by_us = MonotonicUs() + kPatienceUs;
  while (done == 0 && MonotonicUs() < written_by_us) done = bench.port.Pump(0, 1, 100'000);
  CLAIM(done == 1);
  CLAIM(bench.completions[0].result == static_cast<int32_t>(2 * kMiB));

  const auto sink = PortSinks().Find(bench.port.id());
  for (int i = 0; i < kPosts; ++i) sink->Expect();
  std::thread poster([&] {
    for (int i = 0; i < kPosts; ++i) sink->Post({i, 0, 0, CompletionKind::kStream});
  });
  std::thread waker([&] {
    for (int i = 0; i < kPosts; ++i) sink->Wake();
  });

  std::vector<uint32_t> free_slots;
  for (uint32_t slot = 0; slot < kDepth; ++slot) free_slots.push_back(slot);
  std::vector<uint32_t> slot_of(kReads);
  std::vector<uint64_t> offset_of(kReads);
  int submitted = 0, read = 0, posted = 0;
  const int64_t deadline_us = MonotonicUs() + kPatienceUs;
  while ((read < kReads || posted < kPosts) && MonotonicUs() < deadline_us) {
    uint32_t count = 0;
    for (; submitted < kReads && !free_slots.empty(); ++submitted, ++count) {
      const uint32_t slot = free_slots.back();
      free_slots.pop_back();
      const uint64_t offset = random() % (2 * kMiB / 512 - 8) * 512;
      slot_of[submitted] = slot;
      offset_of[submitted] = offset;
      const uint32_t crc = crc32(0, content.data() + offset, 4096);
      bench.Put(count, 256, submitted, number, offset, 2 * kMiB + slot * 4096, 4096, crc);
    }
    const int taken = bench.port.Pump(static_cast<int32_t>(count), 0, 0);
    auto completions = bench.Taken(taken);
    if (taken == 0) completions = bench.Taken(bench.port.Park(10'000));
    for (const Completion& completion : completions) {
      if (completion.kind == CompletionKind::kStream) {
        CLAIM(completion.tag == posted++);
        continue;
      }
      CLAIM(completion.result == 4096);
      const auto tag = static_cast<size_t>(completion.tag);
      CLAIM(std::memcmp(bench.pool->base() + 2 * kMiB + slot_of[tag] * 4096,
                        content.data() + offset_of[tag], 4096) == 0);
      free_slots.push_back(slot_of[tag]);
      ++read;
    }
  }
  poster.join();
  waker.join();
  CLAIM(read == kReads && posted == kPosts);
  CLAIM(bench.port.in_flight() == 0);
  CloseShardFile(number);
}

/// Writes of spans at full depth, some of them with one bad span; the memory of spans is
/// overwritten as soon as a call has returned. What each has written is read back.
void WritesOfSpans(IoKind io) {
  constexpr int kWrites = 600;
  constexpr uint64_t kRegion = 128 * 1024;
  Bench bench(io);
  const auto file = OpenShardFile(folder + "/spans", kDepth * kRegion, false);
  const int32_t number = Files().Add(file);
  std::mt19937 random(13);
  for (size_t i = 0; i < 4 * kMiB; ++i) bench.pool->base()[i] = static_cast<std::byte>(random());

  std::vector<uint32_t> free_slots;
  for (uint32_t slot = 0; slot < kDepth; ++slot) free_slots.push_back(slot);
  std::vector<uint32_t> slot_of(kWrites);
  std::vector<std::vector<std::byte>> content_of(kWrites);
  std::vector<std::byte> stored(kRegion);
  int submitted = 0, ended = 0, refused = 0;
  const int64_t deadline_us = MonotonicUs() + kPatienceUs;
  while (ended < kWrites && MonotonicUs() < deadline_us) {
    uint32_t count = 0;
    for (; submitted < kWrites && !free_slots.empty(); ++submitted, ++count) {
      slot_of[submitted] = free_slots.back();
      free_slots.pop_back();
      std::vector<std::byte>& content = content_of[submitted];
      const size_t spans = 1 + random() % kWriteSpansMax;
      double* span = &bench.spans[count * kWriteSpansMax * kSpanDoubles];
      for (size_t i = 0; i < spans; ++i, span += kSpanDoubles) {
        const uint64_t bytes = (1 + random() % 3) * 512;
        const uint64_t offset = random() % (4 * kMiB / 512 - 3) * 512;
        const std::byte* from = bench.pool->base() + offset;
        content.insert(content.end(), from, from + bytes);
        span[0] = static_cast<double>(offset);
        span[1] = static_cast<double>(bytes);
      }
      bench.Put(count, 2, submitted, number, slot_of[submitted] * kRegion, spans, content.size(),
                0);
      if (submitted % 7 != 0) continue;
      span[-2] = static_cast<double>(4 * kMiB - 256);
      content.clear();
    }
    auto completions = bench.Taken(bench.port.Pump(static_cast<int32_t>(count), 0, 0));
    std::fill(bench.spans.begin(), bench.spans.end(), 1e18);
    if (completions.empty()) completions = bench.Taken(bench.port.Park(10'000));
    for (const Completion& completion : completions) {
      const auto tag = static_cast<size_t>(completion.tag);
      const std::vector<std::byte>& content = content_of[tag];
      ++ended;
      free_slots.push_back(slot_of[tag]);
      if (content.empty()) {
        CLAIM(completion.result == -EINVAL);
        ++refused;
        continue;
      }
      CLAIM(completion.result == static_cast<int32_t>(content.size()));
      const auto at = static_cast<off_t>(slot_of[tag] * kRegion);
      CLAIM(pread(file->fd.get(), stored.data(), content.size(), at) == completion.result);
      CLAIM(std::memcmp(stored.data(), content.data(), content.size()) == 0);
    }
  }
  CLAIM(ended == kWrites && refused == (kWrites + 6) / 7);
  CLAIM(bench.port.in_flight() == 0);
  CloseShardFile(number);
}

/// A read that nothing answers is given up on request, and the port drains.
void CancelsWhatNeverAnswers() {
  Bench bench(IoKind::kUring);
  const std::string path = folder + "/fifo";
  CLAIM(mkfifo(path.c_str(), 0600) == 0);
  auto file = std::make_shared<ShardFile>();
  file->fd.Reset(open(path.c_str(), O_RDWR | O_CLOEXEC));
  file->bytes = kMiB;
  const int32_t number = Files().Add(file);
  for (uint32_t i = 0; i < 4; ++i)
    bench.Put(i, 0, static_cast<int32_t>(i), number, 0, i * 4096, 4096, 0);
  CLAIM(bench.port.Pump(4, 1, 1000) == 0);
  CLAIM(bench.port.Drain(20) == 4);
  bench.port.Cancel();
  CLAIM(bench.port.Drain(20'000) == 0);
  const auto completions = bench.Taken(bench.port.Pump(0, 0, 0));
  CLAIM(completions.size() == 4);
  for (const Completion& completion : completions) CLAIM(completion.result == -ECANCELED);
  CLAIM(CloseShardFile(number));
  unlink(path.c_str());
}

void SendAll(int socket, const std::vector<std::byte>& bytes, std::mt19937& random) {
  for (size_t at = 0; at < bytes.size();) {
    const size_t part = std::min<size_t>(bytes.size() - at, 1 + random() % 3000);
    const ssize_t sent = send(socket, bytes.data() + at, part, MSG_NOSIGNAL);
    if (sent <= 0) return;
    at += static_cast<size_t>(sent);
  }
}

std::vector<std::byte> FrameOf(size_t bytes, std::byte fill) {
  std::vector<std::byte> frame(net::kLengthBytes + bytes, fill);
  for (size_t i = 0; i < net::kLengthBytes; ++i)
    frame[i] = static_cast<std::byte>(bytes >> (8 * i) & 0xff);
  return frame;
}

void Blocking(int socket) { fcntl(socket, F_SETFL, 0); }

/// Frames cut anywhere come whole and in order and go back the same way.
void Echoes(IoKind io) {
  constexpr int kFrames = 200;
  Bench bench(io);
  const std::string path = folder + "/socket";
  net::Sockets& sockets = bench.port.OpenSockets();
  const int32_t listener = sockets.Listen(path);
  std::thread client([&] {
    std::mt19937 random(3);
    const UniqueFd socket = net::ConnectUnix(path);
    Blocking(socket.get());
    for (int i = 0; i < kFrames; ++i) {
      const auto frame = FrameOf(1 + random() % 20'000, static_cast<std::byte>(i));
      SendAll(socket.get(), frame, random);
      std::vector<std::byte> back(frame.size());
      CLAIM(recv(socket.get(), back.data(), back.size(), MSG_WAITALL) ==
            static_cast<ssize_t>(back.size()));
      CLAIM(back == frame);
    }
  });
  int32_t frames = 0;
  bool ended = false;
  std::vector<std::byte> body(net::kBodyBytesMax);
  const int64_t deadline_us = MonotonicUs() + kPatienceUs;
  while (!ended && MonotonicUs() < deadline_us) {
    for (const Completion& completion : bench.Taken(bench.port.Park(100'000))) {
      if (completion.kind == CompletionKind::kFrame) {
        const int bytes = sockets.TakeFrame(completion.tag, body);
        CLAIM(bytes == completion.result);
        CLAIM(body[0] == static_cast<std::byte>(frames++));
        CLAIM(sockets.Send(completion.tag, std::span(body).first(static_cast<size_t>(bytes)), {}) ==
              0);
      } else if (completion.kind == CompletionKind::kClosed) {
        CLAIM(completion.result == 0);
        CLAIM(sockets.CloseConnection(completion.tag));
        ended = true;
      }
    }
  }
  client.join();
  CLAIM(ended && frames == kFrames);
  CLAIM(sockets.CloseListener(listener));
}

/// Whatever bytes and descriptors a peer sends: whole frames, then one end, and no descriptor left.
void SurvivesNoise(IoKind io) {
  constexpr int kPeers = 60;
  Bench bench(io);
  const std::string path = folder + "/socket";
  net::Sockets& sockets = bench.port.OpenSockets();
  sockets.Listen(path);
  std::thread peers([&] {
    std::mt19937 random(11);
    for (int i = 0; i < kPeers; ++i) {
      const UniqueFd socket = net::ConnectUnix(path);
      Blocking(socket.get());
      std::vector<std::byte> noise = FrameOf(1 + random() % 300, std::byte{1});
      const size_t random_bytes = random() % 600;
      for (size_t at = 0; at < random_bytes; ++at)
        noise.push_back(static_cast<std::byte>(random()));
      if (random() % 2 == 0) {
        std::array<int, 3> fds{0, 1, 2};
        iovec part{noise.data(), noise.size()};
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof fds);
        std::memcpy(CMSG_DATA(header), fds.data(), sizeof fds);
        sendmsg(socket.get(), &message, MSG_NOSIGNAL);
      } else {
        SendAll(socket.get(), noise, random);
      }
    }
  });
  int ended = 0;
  std::vector<std::byte> body(net::kBodyBytesMax);
  std::set<int32_t> closed;
  const int64_t deadline_us = MonotonicUs() + kPatienceUs;
  while (ended < kPeers && MonotonicUs() < deadline_us) {
    for (const Completion& completion : bench.Taken(bench.port.Park(100'000))) {
      if (completion.kind == CompletionKind::kFrame) {
        CLAIM(sockets.TakeFrame(completion.tag, body) == completion.result);
      } else if (completion.kind == CompletionKind::kClosed) {
        CLAIM(closed.insert(completion.tag).second);
        CLAIM(sockets.CloseConnection(completion.tag));
        ++ended;
      }
    }
  }
  peers.join();
  CLAIM(ended == kPeers);
}

/// The lowest descriptor that is free: everything below it is in use.
int LowestFree() {
  const UniqueFd probe(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return probe.get();
}

}  // namespace

int main(int count, char** arguments) {
  CLAIM(count == 2);
  folder = arguments[1];
  const bool ring = uring::Probe().available;
  const int before = LowestFree();
  for (const IoKind io : {IoKind::kUring, IoKind::kPosix}) {
    if (io == IoKind::kUring && !ring) continue;
    ReadsUnderFire(io);
    WritesOfSpans(io);
    Echoes(io);
    SurvivesNoise(io);
  }
  if (ring) CancelsWhatNeverAnswers();
  CLAIM(LowestFree() == before);
  std::puts("every claim held");
}
