#include "testing/points.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/clock.h"

namespace orbitkv::testing {
namespace {

/// `NAME.pause` is the test's, `NAME.reached` ours. The first word of the pause is a token that the
/// answer repeats, so that an answer is never taken for that of an earlier pause; a second word
/// "die" ends the thread in place of holding it.
constexpr std::array<const char*, 11> kPauseFiles = {
    "ssd-read.pause",
    "ssd-write.pause",
    "write-error.pause",
    "write-completion.pause",
    "read-completion.pause",
    "host-completion.pause",
    "copy.pause",
    "notification.pause",
    "publish.pause",
    "publish-acknowledgement.pause",
    "restore.pause",
};

constexpr int64_t kPollNs = 2'000'000;
/// As long as the slowest test may need; a test that forgets a pause is told so.
constexpr int64_t kHeldMsMax = 120'000;

constexpr size_t kPathBytes = 4096;
constexpr size_t kTokenBytes = 64;
using Path = std::array<char, kPathBytes>;

/// What a pause file says; empty when there is none.
struct Pause {
  std::array<char, kTokenBytes> text{};
  std::string_view token;
  bool dies = false;
};

thread_local bool death = false;

/// The private folder of the test, or null: then every point is open.
const char* Folder() {
  static const char* const folder = std::getenv("ORBITKV_TEST_POINTS");
  return folder;
}

int64_t HeldMsMax() {
  static const int64_t limit = [] {
    const char* given = std::getenv("ORBITKV_TEST_POINTS_HELD_MS");
    return given == nullptr ? kHeldMsMax : std::atoll(given);
  }();
  return limit;
}

void PathOf(Point point, std::string_view ending, Path& path) {
  const std::string_view file = kPauseFiles[static_cast<size_t>(point)];
  const std::string_view name = file.substr(0, file.rfind('.'));
  std::snprintf(path.data(), path.size(), "%s/%.*s%.*s", Folder(), static_cast<int>(name.size()),
                name.data(), static_cast<int>(ending.size()), ending.data());
}

bool ReadPause(const Path& path, Pause& pause) {
  const int fd = open(path.data(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t bytes = read(fd, pause.text.data(), pause.text.size());
  close(fd);
  if (bytes <= 0) return false;
  const std::string_view text(pause.text.data(), static_cast<size_t>(bytes));
  const size_t space = text.find(' ');
  pause.token = text.substr(0, space);
  pause.dies = space != std::string_view::npos && text.substr(space + 1) == "die";
  return true;
}

[[noreturn]] void Fail(const Path& path, const char* what) {
  std::fprintf(stderr, "orbitkv test build: %s: %s\n", path.data(), what);
  std::abort();
}

/// Whole or not at all: a test that sees the file can read it.
void SayReached(Point point, std::string_view token) {
  Path reached;
  Path draft;
  PathOf(point, ".reached", reached);
  PathOf(point, ".draft", draft);
  const int fd = open(draft.data(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool written =
      fd >= 0 && write(fd, token.data(), token.size()) == static_cast<ssize_t>(token.size());
  if (fd >= 0) close(fd);
  if (!written || rename(draft.data(), reached.data()) != 0)
    Fail(reached, "cannot say that the point was reached");
}

}  // namespace

bool IsPaused(Point point) {
  if (Folder() == nullptr) return false;
  Path path;
  PathOf(point, ".pause", path);
  return access(path.data(), F_OK) == 0;
}

void Pass(Point point) {
  if (Folder() == nullptr) return;
  Path path;
  PathOf(point, ".pause", path);
  Pause pause;
  if (!ReadPause(path, pause)) return;
  if (pause.dies) {
    // The first thread that comes takes the file, and no other dies of it.
    if (unlink(path.data()) != 0) return;
    death = true;
    SayReached(point, pause.token);
    return;
  }
  SayReached(point, pause.token);
  const int64_t deadline_us = MonotonicUs() + HeldMsMax() * 1000;
  for (Pause now; ReadPause(path, now) && now.token == pause.token;) {
    if (MonotonicUs() > deadline_us) Fail(path, "the point was held too long and never resumed");
    const timespec poll{0, kPollNs};
    nanosleep(&poll, nullptr);
  }
}

bool TakeDeath() {
  const bool taken = death;
  death = false;
  return taken;
}

}  // namespace orbitkv::testing
