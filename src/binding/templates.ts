/** Copy templates, at the addon: where the items of a granule are in the pages of mappings. */
export interface TemplateFunctions {
  /**
   * Defines a copy template: `granuleFirstItem[g] … granuleFirstItem[g + 1] - 1` are the TEMPLATE_ITEM indices of
   * granule g. Every item is checked against its mapping for every page. `codings`: one ITEM_CODING an item; none: all are
   * raw. Throws EINVAL with the item's number, also for a coding that its bytes cannot have.
   */
  defineTemplate(items: Float64Array, granuleFirstItem: Float64Array, codings?: Float64Array): number
  releaseTemplate(template: number): void
}
