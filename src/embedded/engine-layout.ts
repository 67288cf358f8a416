import type { Registration } from '../client/registration.js'

/** Where K and V of the pages of a layer lie. */
export type PageLayout =
  /** |K0|K1|...|V0|V1|... a layer, one layer after the other. */
  | 'split'
  /** |K0 V0|K1 V1|... a layer, one layer after the other. */
  | 'adjacent'
  /** |page 0: all layers, K and V of each|page 1: ...; a page is stored as one piece. */
  | 'page-first'

/** The pages of one rank: every layer has the same number of pages of the same size. */
export interface Shape {
  /** Names of the layers, each unique; a number names them layer.0000, layer.0001, ... */
  readonly layers: number | readonly string[]
  /** Pages of each layer. A page holds one block. */
  readonly pages: number
  /** Bytes of K, or of V, of one layer of one page; of both where they are not told apart (`segments: 1`). */
  readonly segmentBytes: number
  /** 2, the default: K and V; 1: one segment, as for latent attention. */
  readonly segments?: 1 | 2
  readonly layout?: PageLayout
}

/** A checked shape with every choice made. */
export interface EngineLayout {
  readonly layers: readonly string[]
  readonly pages: number
  readonly segmentBytes: number
  readonly segments: 1 | 2
  readonly layout: PageLayout
  /** All of it, without gaps. */
  readonly bytes: number
}

/** @throws RangeError for a count or size that is not a positive whole number. */
export function layoutOf(shape: Shape): EngineLayout {
  const { pages, segmentBytes, segments = 2, layout = 'split' } = shape
  const layers =
    typeof shape.layers === 'number'
      ? Array.from({ length: positive('layers', shape.layers) }, (_, i) => `layer.${String(i).padStart(4, '0')}`)
      : [...shape.layers]
  positive('layers', layers.length)
  const bytes = layers.length * segments * positive('segmentBytes', segmentBytes) * positive('pages', pages)
  return { layers, pages, segmentBytes, segments, layout, bytes: positive('bytes of all pages', bytes) }
}

function positive(what: string, value: number): number {
  if (Number.isSafeInteger(value) && value > 0) return value
  throw new RangeError(`Cannot lay out pages: ${what} is ${value}, a positive whole number is needed`)
}

/** Offset of a segment from the start of the pages. @throws RangeError outside the layout. */
export function segmentOffset(of: EngineLayout, layer: number, page: number, segment: number): number {
  const { layers, pages, segmentBytes, segments, layout } = of
  const inside = (value: number, end: number) => Number.isInteger(value) && value >= 0 && value < end
  if (!inside(layer, layers.length) || !inside(page, pages) || !inside(segment, segments)) {
    throw new RangeError(`Cannot find segment ${segment} of page ${page} of layer ${layer}: there is none`)
  }
  const place =
    layout === 'split'
      ? (layer * segments + segment) * pages + page
      : layout === 'adjacent'
        ? (layer * pages + page) * segments + segment
        : (page * layers.length + layer) * segments + segment
  return place * segmentBytes
}

/** What the elements of every page are. */
export interface Elements {
  readonly dtype: string
  /** 0: not told. */
  readonly headDim: number
  readonly heads: number
}

/** The regions of REGISTER that say the same. */
export function regionsOf(of: EngineLayout, elements: Elements): Registration['regions'] {
  const { layers, pages, segmentBytes, segments, layout } = of
  return layers.map((layer, index) => ({
    layer,
    group: 0,
    allocation: 0,
    offsetBytes: segmentOffset(of, index, 0, 0),
    pageCount: pages,
    pageStrideBytes:
      layout === 'split'
        ? segmentBytes
        : layout === 'adjacent'
          ? segments * segmentBytes
          : layers.length * segments * segmentBytes,
    segments,
    segmentBytes,
    segmentStrideBytes: layout === 'split' && segments === 2 ? segmentBytes * pages : segmentBytes,
    kvRole: segments === 2 ? 'packed' : 'latent',
    ...elements,
  }))
}
