// Stands in for libcufile.so.0: the symbols that native/cufile resolves, over pread and pwrite of host memory. What goes
// wrong is said by files in the folder $ORBITKV_CUFILE_SHIM, looked at by every call:
//
//   version, open, handle, buffer, stream   a number: the version, or the status that the call fails with
//   closes0                                 a failed open closes descriptor 0
//   deregister                              the status that forgetting a buffer fails with
//   compat                                  compatibility mode cannot be turned off
//   nostreams                               the driver has no operations on streams
//   read, write                             short, hold (until the file goes), a status that submission fails with, or
//                                           a negative number for the result word
//   log                                     one line for each transfer: read|write bytes offset
//   loaded                                  the pid of each process that opened the library, one a line
//
// Sizes and offsets of the stream calls are read when the stream reaches them, as the library does.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define TOLD_FOLDER "ORBITKV_CUFILE_SHIM"
#include "../told.h"

typedef struct {
  int err;
  int cu_err;
} Status;

typedef struct {
  int type;
  union {
    int fd;
    void* handle;
  };
  const void* operations;
} Descriptor;

typedef struct {
  unsigned major, minor;
  size_t poll_kb, direct_kb;
  unsigned status_flags, control_flags, feature_flags;
  unsigned device_cache_kb, buffer_cache_kb, pinned_kb, batch, batch_ms;
} Properties;

typedef struct {
  int fd;
} Handle;

typedef struct {
  bool write;
  Handle* handle;
  void* base;
  size_t* size;
  off_t* file_offset;
  off_t* buffer_offset;
  ssize_t* done;
} Transfer;

static bool driver_open;
static bool allow_compat = true, force_compat;
/// Registered buffers, so that forgetting one shows.
#define BUFFERS 512
static const void* buffers[BUFFERS];

static Status status(int err) { return (Status){err, 0}; }

/// Whoever opens the library leaves a mark, called or not.
__attribute__((constructor)) static void loaded(void) {
  note("loaded", "%d\n", (int)getpid());
}

Status cuFileDriverOpen(void) {
  const int err = (int)number("open", 0);
  if (err != 0) {
    char line[64];
    if (told("closes0", line, sizeof line)) close(0);
    allow_compat = true;
    force_compat = false;
    return status(err);
  }
  driver_open = true;
  return status(0);
}

Status cuFileDriverClose_v2(void) {
  for (int at = 0; at < BUFFERS; at++)
    if (buffers[at] != NULL) return status(5030);
  driver_open = false;
  return status(0);
}

long cuFileUseCount(void) { return driver_open ? 1 : number("used", 0); }

Status cuFileGetVersion(int* version) {
  *version = (int)number("version", 1150);
  return status(0);
}

Status cuFileDriverGetProperties(Properties* properties) {
  char line[64];
  memset(properties, 0, sizeof *properties);
  properties->control_flags = allow_compat ? 2 : 0;
  properties->feature_flags = told("nostreams", line, sizeof line) ? 2 : 6;
  return status(0);
}

Status cuFileSetParameterBool(int parameter, bool value) {
  char line[64];
  if (driver_open) return status(5026);
  if (parameter == 1) allow_compat = value || told("compat", line, sizeof line);
  if (parameter == 2) force_compat = value;
  return status(0);
}

Status cuFileGetParameterBool(int parameter, bool* value) {
  *value = parameter == 1 ? allow_compat : force_compat;
  return status(0);
}

Status cuFileSetParameterString(int parameter, const char* value) {
  return status(parameter == 2 && value[0] == '/' ? 0 : 5022);
}

/// As the library: a file is known by the name of its descriptor, and that name must exist.
static int name_is_deleted(int fd) {
  static const char ending[] = " (deleted)";
  char link[64], name[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, name, sizeof name);
  const ssize_t tail = (ssize_t)sizeof ending - 1;
  return length >= tail && memcmp(name + length - tail, ending, (size_t)tail) == 0;
}

Status cuFileHandleRegister(void** handle, Descriptor* descriptor) {
  const int err = (int)number("handle", 0);
  if (!driver_open) return status(5001);
  if (err != 0) return status(err);
  if (name_is_deleted(descriptor->fd)) return status(5031);
  Handle* made = malloc(sizeof *made);
  made->fd = descriptor->fd;
  *handle = made;
  return status(0);
}

void cuFileHandleDeregister(void* handle) { free(handle); }

Status cuFileBufRegister(const void* base, size_t bytes, int flags) {
  (void)flags;
  const int err = (int)number("buffer", 0);
  if (err != 0 || bytes == 0) return status(err != 0 ? err : 5022);
  for (int at = 0; at < BUFFERS; at++) {
    if (buffers[at] != NULL) continue;
    buffers[at] = base;
    return status(0);
  }
  return status(5016);
}

Status cuFileBufDeregister(const void* base) {
  const int err = (int)number("deregister", 0);
  if (err != 0) return status(err);
  for (int at = 0; at < BUFFERS; at++) {
    if (buffers[at] != base) continue;
    buffers[at] = NULL;
    return status(0);
  }
  return status(5024);
}

Status cuFileStreamRegister(void* stream, unsigned flags) {
  (void)stream;
  return status(flags == 0xF ? (int)number("stream", 0) : 5022);
}

Status cuFileStreamDeregister(void* stream) {
  (void)stream;
  return status(0);
}

static bool registered(const void* base) {
  for (int at = 0; at < BUFFERS; at++)
    if (buffers[at] == base) return true;
  return false;
}

/// Moves bytes as the file of the folder says; bytes, or a negative result.
static ssize_t move(bool write, Handle* handle, void* base, size_t size, off_t file_offset, off_t buffer_offset) {
  char line[64];
  const char* name = write ? "write" : "read";
  if (told(name, line, sizeof line)) {
    if (strcmp(line, "hold") == 0) {
      const struct timespec pause = {0, 1000000};
      while (told(name, line, sizeof line)) nanosleep(&pause, NULL);
    } else if (strcmp(line, "short") == 0) {
      size -= 4096;
    } else {
      const int result = atoi(line);
      if (result < 0) return result;
      errno = result;
      return -1;
    }
  }
  if (!registered(base)) return -5024;
  char* memory = (char*)base + buffer_offset;
  size_t moved = 0;
  while (moved < size) {
    const off_t at = file_offset + (off_t)moved;
    const ssize_t step = write ? pwrite(handle->fd, memory + moved, size - moved, at)
                               : pread(handle->fd, memory + moved, size - moved, at);
    if (step < 0 && errno == EINTR) continue;
    if (step < 0) return -1;
    if (step == 0) break;
    moved += (size_t)step;
  }
  note("log", "%s %zu %lld\n", name, moved, (long long)file_offset);
  return (ssize_t)moved;
}

ssize_t cuFileRead(void* handle, void* base, size_t size, off_t file_offset, off_t buffer_offset) {
  return move(false, handle, base, size, file_offset, buffer_offset);
}

ssize_t cuFileWrite(void* handle, const void* base, size_t size, off_t file_offset, off_t buffer_offset) {
  return move(true, handle, (void*)base, size, file_offset, buffer_offset);
}

static void run(void* given) {
  Transfer* transfer = given;
  *transfer->done = move(transfer->write, transfer->handle, transfer->base, *transfer->size, *transfer->file_offset,
                         *transfer->buffer_offset);
  free(transfer);
}

static Status queue(Transfer made, void* stream) {
  char line[64];
  const char* name = made.write ? "write" : "read";
  if (told(name, line, sizeof line) && atoi(line) > 5000) return status(atoi(line));
  Transfer* transfer = malloc(sizeof *transfer);
  *transfer = made;
  if (stream == NULL) {
    run(transfer);
    return status(0);
  }
  int (*launch)(void*, void (*)(void*), void*) = NULL;
  // test/shims/between.c may stand before the driver; the driver's own calls are behind it.
  const char* path = getenv("ORBITKV_BEHIND_LIBCUDA");
  if (path == NULL) path = getenv("ORBITKV_LIBCUDA");
  void* driver = dlopen(path != NULL ? path : "libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver != NULL) *(void**)&launch = dlsym(driver, "cuLaunchHostFunc");
  if (launch == NULL || launch(stream, run, transfer) != 0) {
    free(transfer);
    return status(5011);
  }
  return status(0);
}

Status cuFileReadAsync(void* handle, void* base, size_t* size, off_t* file_offset, off_t* buffer_offset, ssize_t* done,
                       void* stream) {
  return queue((Transfer){false, handle, base, size, file_offset, buffer_offset, done}, stream);
}

Status cuFileWriteAsync(void* handle, void* base, size_t* size, off_t* file_offset, off_t* buffer_offset,
                        ssize_t* done, void* stream) {
  return queue((Transfer){true, handle, base, size, file_offset, buffer_offset, done}, stream);
}
