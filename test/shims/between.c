// Stands between the Manager and the libraries of a vendor, real ones or the other files of this folder, and holds work
// back or cuts it short there. One file for both: ORBITKV_LIBCUDA and ORBITKV_CUFILE_LIBRARY name it, what it forwards
// to is named by ORBITKV_BEHIND_LIBCUDA and ORBITKV_BEHIND_LIBCUFILE, or found by the loader.
//
// Orders are files in the folder $ORBITKV_BETWEEN, looked at by every call:
//
//   read, write   hold: the stream goes no further until the file has gone; short: a page less than was asked for
//   copy          hold: the same before copies and kernels on streams that cuFile does not know
//
// A stream is held by the device itself, which waits for a word in mapped memory: no thread of the driver stands still,
// and what is on other streams goes on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

typedef int Result;
typedef uint64_t Address;
typedef void* Stream;
typedef struct {
  int err;
  int cu_err;
} Status;

static void* open_behind(const char* variable, const char* soname) {
  const char* given = getenv(variable);
  const char* name = given != NULL && *given != 0 ? given : soname;
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "between: %s: %s\n", name, dlerror());
  return library;
}

// ---- orders

enum { READ, WRITE, COPY, KINDS };
static const char* const kNames[KINDS] = {"read", "write", "copy"};

static bool told(int kind, const char* order) {
  const char* folder = getenv("ORBITKV_BETWEEN");
  char path[4096], line[64] = "";
  if (folder == NULL) return false;
  snprintf(path, sizeof path, "%s/%s", folder, kNames[kind]);
  FILE* file = fopen(path, "re");
  if (file == NULL) return false;
  if (fgets(line, sizeof line, file) == NULL) line[0] = 0;
  fclose(file);
  line[strcspn(line, "\n")] = 0;
  return strcmp(line, order) == 0;
}

// ---- the driver

typedef Result (*GetProcAddress)(const char*, void**, int, uint64_t, int*);
typedef Result (*WaitValue)(Stream, Address, uint32_t, unsigned);
typedef Result (*HostAlloc)(void**, size_t, unsigned);
typedef Result (*DevicePointer)(Address*, void*, unsigned);
typedef Result (*CopyToDevice)(Address, const void*, size_t, Stream);
typedef Result (*CopyFromDevice)(void*, Address, size_t, Stream);
typedef Result (*CopyBatch)(Address*, Address*, size_t*, size_t, void*, size_t*, size_t, size_t*, Stream);
typedef Result (*Launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**,
                         void**);

static GetProcAddress get_behind;
static CopyToDevice to_device;
static CopyFromDevice from_device;
static CopyBatch copy_batch;
static Launch launch;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/// Streams that cuFile was told of.
#define STREAMS 512
static Stream staging[STREAMS];
/// By kind: how many holds there were, and the word that says how many may go.
static uint32_t held[KINDS];
static volatile uint32_t* words;
static Address words_on_device;

static void* watch(void* unused) {
  (void)unused;
  for (;;) {
    const struct timespec pause = {0, 1000000};
    nanosleep(&pause, NULL);
    pthread_mutex_lock(&lock);
    for (int kind = 0; kind < KINDS; kind++)
      if (words[kind] != held[kind] && !told(kind, "hold")) words[kind] = held[kind];
    pthread_mutex_unlock(&lock);
  }
  return NULL;
}

static void* of_driver(const char* name, int version) {
  void* found = NULL;
  int status = 0;
  if (get_behind == NULL || get_behind(name, &found, version, 0, &status) != 0 || status != 0) return NULL;
  return found;
}

/// With the lock held.
static bool can_hold(void) {
  if (words != NULL) return true;
  const HostAlloc allocate = (HostAlloc)of_driver("cuMemHostAlloc", 2020);
  const DevicePointer address_of = (DevicePointer)of_driver("cuMemHostGetDevicePointer", 3020);
  void* made = NULL;
  if (allocate == NULL || address_of == NULL || allocate(&made, 4096, 3) != 0) return false;
  memset(made, 0, 4096);
  pthread_t thread;
  if (address_of(&words_on_device, made, 0) != 0) return false;
  words = made;
  return pthread_create(&thread, NULL, watch, NULL) == 0;
}

/// Lets the stream go no further while the order stands. A hold that cannot be is a broken test: it ends here.
static void hold_if_told(int kind, Stream stream) {
  if (!told(kind, "hold")) return;
  pthread_mutex_lock(&lock);
  const WaitValue wait = (WaitValue)of_driver("cuStreamWaitValue32", 11070);
  if (wait == NULL || !can_hold()) abort();
  held[kind]++;
  const Address word = words_on_device + sizeof(uint32_t) * (unsigned)kind;
  if (wait(stream, word, held[kind], 0) != 0) abort();
  pthread_mutex_unlock(&lock);
}

static bool is_staging(Stream stream) {
  bool known = false;
  pthread_mutex_lock(&lock);
  for (int at = 0; at < STREAMS; at++) known = known || staging[at] == stream;
  pthread_mutex_unlock(&lock);
  return known;
}

static void hold_copy(Stream stream) {
  if (stream != NULL && !is_staging(stream)) hold_if_told(COPY, stream);
}

static Result CopyTo(Address to, const void* from, size_t bytes, Stream stream) {
  hold_copy(stream);
  return to_device(to, from, bytes, stream);
}
static Result CopyFrom(void* to, Address from, size_t bytes, Stream stream) {
  hold_copy(stream);
  return from_device(to, from, bytes, stream);
}
static Result CopyMany(Address* to, Address* from, size_t* sizes, size_t count, void* attributes, size_t* firsts,
                       size_t attribute_count, size_t* failed, Stream stream) {
  hold_copy(stream);
  return copy_batch(to, from, sizes, count, attributes, firsts, attribute_count, failed, stream);
}
static Result LaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                           unsigned bz, unsigned shared, Stream stream, void** arguments, void** extra) {
  hold_copy(stream);
  return launch(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra);
}

API Result cuGetProcAddress_v2(const char* name, void** found, int version, uint64_t flags, int* status) {
  if (get_behind == NULL) {
    void* library = open_behind("ORBITKV_BEHIND_LIBCUDA", "libcuda.so.1");
    if (library != NULL) get_behind = (GetProcAddress)dlsym(library, "cuGetProcAddress_v2");
    if (get_behind == NULL) return 500;
  }
  const Result result = get_behind(name, found, version, flags, status);
  if (result != 0 || *found == NULL) return result;
#define INSTEAD(called, real, ours)     \
  if (strcmp(name, called) == 0) {      \
    *(void**)&real = *found;            \
    *found = (void*)(intptr_t)ours;     \
  }
  INSTEAD("cuMemcpyHtoDAsync", to_device, CopyTo)
  INSTEAD("cuMemcpyDtoHAsync", from_device, CopyFrom)
  INSTEAD("cuMemcpyBatchAsync", copy_batch, CopyMany)
  INSTEAD("cuLaunchKernel", launch, LaunchKernel)
  return result;
}

// ---- cuFile

static void* look_behind(const char* name) {
  static void* library;
  pthread_mutex_lock(&lock);
  if (library == NULL) library = open_behind("ORBITKV_BEHIND_LIBCUFILE", "libcufile.so.0");
  pthread_mutex_unlock(&lock);
  return library == NULL ? NULL : dlsym(library, name);
}
static void* behind(const char* name) {
  void* found = look_behind(name);
  if (found == NULL) fprintf(stderr, "between: there is no %s behind\n", name);
  return found;
}

#define UNAVAILABLE (Status){5001, 0}
#define FORWARD(result, name, otherwise, parameters, arguments) \
  API result name parameters {                                  \
    result(*real) parameters = (result(*) parameters)behind(#name); \
    return real == NULL ? otherwise : real arguments;           \
  }

FORWARD(Status, cuFileDriverOpen, UNAVAILABLE, (void), ())
FORWARD(long, cuFileUseCount, 0, (void), ())
FORWARD(Status, cuFileGetVersion, UNAVAILABLE, (int* version), (version))
FORWARD(Status, cuFileDriverGetProperties, UNAVAILABLE, (void* properties), (properties))
FORWARD(Status, cuFileSetParameterBool, UNAVAILABLE, (int parameter, bool value), (parameter, value))
FORWARD(Status, cuFileGetParameterBool, UNAVAILABLE, (int parameter, bool* value), (parameter, value))
FORWARD(Status, cuFileSetParameterString, UNAVAILABLE, (int parameter, const char* value), (parameter, value))
FORWARD(Status, cuFileHandleRegister, UNAVAILABLE, (void** handle, void* descriptor), (handle, descriptor))
FORWARD(Status, cuFileBufRegister, UNAVAILABLE, (const void* base, size_t bytes, int flags), (base, bytes, flags))
FORWARD(Status, cuFileBufDeregister, UNAVAILABLE, (const void* base), (base))
FORWARD(ssize_t, cuFileRead, -5001, (void* handle, void* base, size_t size, off_t at, off_t in),
        (handle, base, size, at, in))
FORWARD(ssize_t, cuFileWrite, -5001, (void* handle, const void* base, size_t size, off_t at, off_t in),
        (handle, base, size, at, in))

API Status cuFileDriverClose_v2(void) {
  Status (*real)(void) = (Status(*)(void))look_behind("cuFileDriverClose_v2");
  if (real == NULL) real = (Status(*)(void))behind("cuFileDriverClose");
  return real == NULL ? UNAVAILABLE : real();
}
API void cuFileHandleDeregister(void* handle) {
  void (*real)(void*) = (void (*)(void*))behind("cuFileHandleDeregister");
  if (real != NULL) real(handle);
}

static bool replace(Stream old, Stream stream) {
  bool found = false;
  pthread_mutex_lock(&lock);
  for (int at = 0; at < STREAMS && !found; at++) {
    found = staging[at] == old;
    if (found) staging[at] = stream;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

API Status cuFileStreamRegister(Stream stream, unsigned flags) {
  Status (*real)(Stream, unsigned) = (Status(*)(Stream, unsigned))behind("cuFileStreamRegister");
  if (real == NULL || !replace(NULL, stream)) return UNAVAILABLE;
  return real(stream, flags);
}
API Status cuFileStreamDeregister(Stream stream) {
  Status (*real)(Stream) = (Status(*)(Stream))behind("cuFileStreamDeregister");
  replace(stream, NULL);
  return real == NULL ? UNAVAILABLE : real(stream);
}

typedef Status (*Transfer)(void*, void*, size_t*, off_t*, off_t*, ssize_t*, Stream);

static Status transfer(int kind, const char* name, void* handle, void* base, size_t* size, off_t* file_offset,
                       off_t* buffer_offset, ssize_t* done, Stream stream) {
  const Transfer real = (Transfer)behind(name);
  if (real == NULL) return UNAVAILABLE;
  hold_if_told(kind, stream);
  if (told(kind, "short")) *size -= 4096;
  return real(handle, base, size, file_offset, buffer_offset, done, stream);
}
API Status cuFileReadAsync(void* handle, void* base, size_t* size, off_t* file_offset, off_t* buffer_offset,
                           ssize_t* done, Stream stream) {
  return transfer(READ, "cuFileReadAsync", handle, base, size, file_offset, buffer_offset, done, stream);
}
API Status cuFileWriteAsync(void* handle, void* base, size_t* size, off_t* file_offset, off_t* buffer_offset,
                            ssize_t* done, Stream stream) {
  return transfer(WRITE, "cuFileWriteAsync", handle, base, size, file_offset, buffer_offset, done, stream);
}
