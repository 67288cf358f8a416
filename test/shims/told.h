// How a stand-in is told what to do: by files in the folder that the variable TOLD_FOLDER of the
// environment names, looked at by every call. A file appears whole (test/support/told-shim.ts).
#pragma once
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/// The first line of a file of the folder; false when there is no such file.
static bool told(const char* name, char* line, size_t bytes) {
  const char* folder = getenv(TOLD_FOLDER);
  char path[4096];
  if (folder == NULL) return false;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE* file = fopen(path, "re");
  if (file == NULL) return false;
  if (fgets(line, (int)bytes, file) == NULL) line[0] = 0;
  line[strcspn(line, "\n")] = 0;
  fclose(file);
  return true;
}

static long number(const char* name, long otherwise) {
  char line[64];
  return told(name, line, sizeof line) ? atol(line) : otherwise;
}

/// Appends a line to a file of the folder, whole, whoever else does.
__attribute__((format(printf, 2, 3))) static void note(const char* name, const char* format, ...) {
  const char* folder = getenv(TOLD_FOLDER);
  char path[4096], line[512];
  if (folder == NULL) return;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (length < 0 || (size_t)length >= sizeof line) abort();
  const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  if (write(fd, line, (size_t)length) != length) abort();
  close(fd);
}
