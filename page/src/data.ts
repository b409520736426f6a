// The page's data: JSON, compressed, in a script element.

import type { Book } from "./model";

/** Undoes what wsched.explore.page.packed has made. */
export async function unpack(text: string): Promise<Book> {
  const bytes = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text()) as Book;
}
