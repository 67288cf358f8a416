import { type Digest, digestOf } from './digest.js'

/** Where a party's memory lies: its own numbers, booleans and Int32Arrays, found once. */
export class Fields {
  private readonly scalars: {
    readonly object: Record<string, unknown>
    readonly name: string
    readonly flag: boolean
  }[] = []
  private readonly arrays: Int32Array[] = []
  private size = 0

  constructor(objects: readonly object[]) {
    for (const object of objects) {
      for (const [name, value] of Object.entries(object)) {
        const flag = typeof value === 'boolean'
        if (flag || typeof value === 'number')
          this.scalars.push({ object: object as Record<string, unknown>, name, flag })
        else if (value instanceof Int32Array) this.arrays.push(value)
      }
    }
    this.size = this.scalars.length + this.arrays.reduce((sum, array) => sum + array.length, 0)
  }

  save(): { readonly fields: Float64Array; readonly digest: Digest } {
    const fields = new Float64Array(this.size)
    let at = 0
    for (const { object, name } of this.scalars) fields[at++] = Number(object[name])
    for (const array of this.arrays) {
      fields.set(array, at)
      at += array.length
    }
    return { fields, digest: digestOf(fields) }
  }

  load(saved: Float64Array): void {
    let at = 0
    for (const { object, name, flag } of this.scalars) {
      const value = saved[at++] as number
      object[name] = flag ? value === 1 : value
    }
    for (const array of this.arrays) {
      for (let i = 0; i < array.length; i++) array[i] = saved[at++] as number
    }
  }
}
