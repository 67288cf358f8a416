/**
 * Preloaded into a process (`node --import`), and so into each of its threads, this makes the one `dlopen` of the addon
 * load its test build. The product knows nothing of it: no file of src/ reads these variables, and no flag or variable
 * of the Manager names an addon. testAddonEnvironment() in test-addon-build.ts says what such a process is started with.
 */
const path = process.env['ORBITKV_TEST_ADDON']
if (path === undefined || path === '') throw new Error('ORBITKV_TEST_ADDON must name the test build of the addon')

const dlopen = process.dlopen.bind(process) as (module: object, file: string, ...rest: unknown[]) => void

process.dlopen = (module: object, file: string, ...rest: unknown[]) => {
  dlopen(module, file.endsWith('/orbitkv.node') ? path : file, ...rest)
}

export {}
