// Stands in for libnvrtc: "compiles" a program to "SHIM <name>", which the twin of libcuda loads. Faults, from the
// environment variable ORBITKV_SHIM_NVRTC: compile (every compilation fails, with a log), old (knows sm_75 alone), image
// (compiles, and does not give the code), version (does not say which it is).
#include <stdlib.h>
#include <string.h>

typedef struct {
  char image[128];
} Program;
static const char kLog[] = "orbitkv_move(1): error: told to fail";

static int told(const char *fault) {
  const char *given = getenv("ORBITKV_SHIM_NVRTC");
  return given != NULL && strcmp(given, fault) == 0;
}
int nvrtcVersion(int *major, int *minor) {
  if (told("version")) return 11;
  *major = 13;
  *minor = 0;
  return 0;
}
int nvrtcGetNumSupportedArchs(int *count) {
  *count = told("old") ? 1 : 3;
  return 0;
}
int nvrtcGetSupportedArchs(int *list) {
  list[0] = 75;
  if (told("old")) return 0;
  list[1] = 80;
  list[2] = 90;
  return 0;
}
int nvrtcCreateProgram(Program **out, const char *text, const char *name, int headers, const char *const *a,
                       const char *const *b) {
  (void)a, (void)b;
  if (headers != 0 || strstr(text, name) == NULL) return 4;
  *out = calloc(1, sizeof **out);
  strcpy((*out)->image, "SHIM ");
  strncat((*out)->image, name, 100);
  return 0;
}
int nvrtcCompileProgram(Program *program, int count, const char *const *options) {
  (void)program;
  if (count < 1 || strncmp(options[0], "--gpu-architecture=", 19) != 0) return 5;
  return told("compile") ? 6 : 0;
}
int nvrtcGetProgramLogSize(Program *program, size_t *size) {
  (void)program;
  *size = sizeof kLog;
  return 0;
}
int nvrtcGetProgramLog(Program *program, char *log) {
  (void)program;
  strcpy(log, kLog);
  return 0;
}
int nvrtcGetCUBINSize(Program *program, size_t *size) {
  *size = strlen(program->image) + 1;
  return 0;
}
int nvrtcGetCUBIN(Program *program, char *image) {
  if (told("image")) return 11;
  strcpy(image, program->image);
  return 0;
}
int nvrtcGetPTXSize(Program *program, size_t *size) { return nvrtcGetCUBINSize(program, size); }
int nvrtcGetPTX(Program *program, char *image) { return nvrtcGetCUBIN(program, image); }
int nvrtcDestroyProgram(Program **program) {
  free(*program);
  *program = NULL;
  return 0;
}
