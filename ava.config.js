export default {
  files: ['dist/test/**/*.test.js'],
  // A crash of the addon then ends one file's process, not the runner.
  workerThreads: false,
  concurrency: 2,
  timeout: '3m',
}
