#include "net/sockets.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/system_error.h"

namespace orbitkv::net {

namespace {

// Accepted at once, so that a flood of connections does not keep frames waiting.
constexpr int kAcceptsMax = 16;
// With no descriptor free, accepting is tried again after this.
constexpr int64_t kPauseUs = 100'000;

enum class Source : uint64_t { kListener, kConnection, kProcess };

uint64_t KeyOf(Source source, int32_t number) {
  return static_cast<uint64_t>(source) << 32 | static_cast<uint32_t>(number);
}

/// 0 or -errno.
int Control(int epoll, int operation, int fd, uint32_t events, uint64_t key) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  return epoll_ctl(epoll, operation, fd, &event) == 0 ? 0 : -errno;
}

}  // namespace

Sockets::Sockets() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_.valid()) throw SystemError(errno, "Cannot create an epoll set");
}

void Sockets::Poll(std::vector<Completion>& out) {
  if (paused_ > 0) ResumePaused();
  std::array<epoll_event, 64> events;
  int count;
  do {
    count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) {
      const auto source = static_cast<Source>(events[static_cast<size_t>(i)].data.u64 >> 32);
      const auto number = static_cast<int32_t>(events[static_cast<size_t>(i)].data.u64);
      if (source == Source::kListener) {
        const auto found = listeners_.find(number);
        if (found != listeners_.end()) Accept(number, *found->second, out);
      } else if (source == Source::kProcess) {
        ProcessEnded(number);
      } else if (Connection* connection = Find(number)) {
        if (connection->watches_room) WatchRoom(number, *connection);
        connection->readable = true;
        List(number, *connection);
      }
    }
    // A listener stays ready while connections wait, so a full batch is the only reason to ask
    // again.
  } while (count == static_cast<int>(events.size()));
  reading_.clear();
  std::swap(reading_, ready_);
  for (const int32_t number : reading_) Read(number, out);
  TellEnds(out);
}

int32_t Sockets::Listen(const std::string& path) {
  auto listener = std::make_unique<Listener>(path);
  const int32_t number = next_++;
  const int added = Control(epoll_.get(), EPOLL_CTL_ADD, listener->socket.fd(), EPOLLIN,
                            KeyOf(Source::kListener, number));
  if (added < 0) throw SystemError(-added, "Cannot watch the socket " + path);
  listeners_.emplace(number, std::move(listener));
  return number;
}

bool Sockets::CloseListener(int32_t number) {
  const auto found = listeners_.find(number);
  if (found == listeners_.end()) return false;
  if (found->second->resumes_us > 0) --paused_;
  listeners_.erase(found);
  return true;
}

int32_t Sockets::Connect(const std::string& path) {
  int unwatched;
  return Adopt(ConnectUnix(path), &unwatched);
}

int32_t Sockets::AdoptEnd(UniqueFd end) {
  PrepareStream(end.get());
  int unwatched;
  return Adopt(std::move(end), &unwatched);
}

int32_t Sockets::Adopt(UniqueFd socket, int* unwatched) {
  auto connection = std::make_unique<Connection>();
  connection->socket = std::move(socket);
  connection->peer = ReadPeer(connection->socket.get());
  const int32_t number = next_++;
  // Edge-triggered: while a frame waits for its taker nothing is read and nothing spins.
  const int added = Control(epoll_.get(), EPOLL_CTL_ADD, connection->socket.get(),
                            EPOLLIN | EPOLLRDHUP | EPOLLET, KeyOf(Source::kConnection, number));
  if (added < 0) throw SystemError(-added, "Cannot watch a connection");
  *unwatched = 0;
  const int process = OpenPeerProcess(connection->socket.get(), connection->peer.pid);
  if (process >= 0) {
    connection->process.Reset(process);
    *unwatched =
        Control(epoll_.get(), EPOLL_CTL_ADD, process, EPOLLIN, KeyOf(Source::kProcess, number));
  } else if (process == -ESRCH && connection->peer.pid > 0) {
    exited_.push_back(number);
  } else {
    *unwatched = process;
  }
  List(number, *connection);
  connections_.emplace(number, std::move(connection));
  return number;
}

void Sockets::Accept(int32_t number, Listener& listener, std::vector<Completion>& out) {
  for (int i = 0; i < kAcceptsMax; ++i) {
    const int fd = listener.socket.Accept();
    if (fd == -EINTR || fd == -ECONNABORTED) continue;
    if (fd == -EAGAIN) return;
    if (fd < 0) {
      out.push_back({number, fd, 0, CompletionKind::kAccepted});
      return Pause(number, listener);
    }
    try {
      int unwatched;
      const int32_t connection = Adopt(UniqueFd(fd), &unwatched);
      out.push_back({number, connection, unwatched, CompletionKind::kAccepted});
    } catch (const SystemError& error) {
      out.push_back({number, -error.error(), 0, CompletionKind::kAccepted});
    }
  }
}

void Sockets::Pause(int32_t number, Listener& listener) {
  listener.resumes_us = MonotonicUs() + kPauseUs;
  ++paused_;
  Control(epoll_.get(), EPOLL_CTL_MOD, listener.socket.fd(), 0, KeyOf(Source::kListener, number));
}

void Sockets::ResumePaused() {
  const int64_t now_us = MonotonicUs();
  for (const auto& [number, listener] : listeners_) {
    if (listener->resumes_us == 0 || listener->resumes_us > now_us) continue;
    listener->resumes_us = 0;
    --paused_;
    Control(epoll_.get(), EPOLL_CTL_MOD, listener->socket.fd(), EPOLLIN,
            KeyOf(Source::kListener, number));
  }
}

void Sockets::List(int32_t number, Connection& connection) {
  if (connection.listed || !connection.readable || connection.reader.whole() ||
      !connection.socket.valid())
    return;
  connection.listed = true;
  ready_.push_back(number);
}

void Sockets::Read(int32_t number, std::vector<Completion>& out) {
  Connection* connection = Find(number);
  if (connection == nullptr) return;
  connection->listed = false;
  if (!connection->socket.valid() || connection->reader.whole()) return;
  switch (connection->reader.Read(connection->socket.get())) {
    case FrameReader::Outcome::kFrame: {
      const auto bytes = static_cast<int32_t>(connection->reader.body().size());
      out.push_back({number, bytes, 0, CompletionKind::kFrame});
      return;
    }
    case FrameReader::Outcome::kAgain:
      connection->readable = false;
      return;
    case FrameReader::Outcome::kEnd:
      return End(number, *connection, 0, out);
    case FrameReader::Outcome::kFailed:
      return End(number, *connection, -connection->reader.error(), out);
  }
}

void Sockets::End(int32_t number, Connection& connection, int result,
                  std::vector<Completion>& out) {
  connection.socket.Reset();
  connection.reader.Clear();
  connection.queue = SendQueue();
  out.push_back({number, result, 0, CompletionKind::kClosed});
}

void Sockets::ProcessEnded(int32_t number) {
  Connection* connection = Find(number);
  if (connection == nullptr) return;
  connection->process.Reset();
  exited_.push_back(number);
}

void Sockets::TellEnds(std::vector<Completion>& out) {
  std::erase_if(exited_, [&](int32_t number) {
    const Connection* connection = Find(number);
    if (connection == nullptr) return true;
    const bool unread =
        connection->socket.valid() && (connection->readable || connection->reader.whole());
    if (!unread) out.push_back({number, 0, 0, CompletionKind::kPeerExited});
    return !unread;
  });
}

const PeerCredentials* Sockets::Peer(int32_t number) const {
  const auto found = connections_.find(number);
  return found == connections_.end() ? nullptr : &found->second->peer;
}

int Sockets::TakeFrame(int32_t number, std::span<std::byte> target) {
  Connection* connection = Find(number);
  if (connection == nullptr) return -EBADF;
  if (!connection->reader.whole()) return -EAGAIN;
  const auto body = connection->reader.body();
  if (body.size() > target.size()) return -EMSGSIZE;
  std::memcpy(target.data(), body.data(), body.size());
  const auto bytes = static_cast<int>(body.size());
  connection->taken = connection->reader.TakeDescriptors();
  connection->reader.Clear();
  List(number, *connection);
  return bytes;
}

std::vector<UniqueFd> Sockets::TakeDescriptors(int32_t number) {
  Connection* connection = Find(number);
  return connection == nullptr ? std::vector<UniqueFd>() : std::move(connection->taken);
}

int Sockets::Send(int32_t number, std::span<const std::byte> body, std::span<const int> fds) {
  Connection* connection = Find(number);
  if (connection == nullptr) return -EBADF;
  if (!connection->socket.valid()) return -EPIPE;
  const int sent = connection->queue.Send(connection->socket.get(), body, fds);
  if (!connection->queue.empty() && !connection->watches_room) WatchRoom(number, *connection);
  return sent;
}

void Sockets::WatchRoom(int32_t number, Connection& connection) {
  if (!connection.socket.valid()) return;
  connection.queue.Flush(connection.socket.get());
  const bool wanted = !connection.queue.empty();
  if (wanted == connection.watches_room) return;
  // A peer that reads frees room at every read: it is watched only while something is queued.
  connection.watches_room = wanted;
  const uint32_t events = EPOLLIN | EPOLLRDHUP | EPOLLET | (wanted ? EPOLLOUT : 0u);
  Control(epoll_.get(), EPOLL_CTL_MOD, connection.socket.get(), events,
          KeyOf(Source::kConnection, number));
}

bool Sockets::CloseConnection(int32_t number) {
  Connection* connection = Find(number);
  if (connection == nullptr) return false;
  if (connection->socket.valid()) connection->queue.Flush(connection->socket.get());
  connections_.erase(number);
  return true;
}

Sockets::Connection* Sockets::Find(int32_t number) {
  const auto found = connections_.find(number);
  return found == connections_.end() ? nullptr : found->second.get();
}

}  // namespace orbitkv::net
