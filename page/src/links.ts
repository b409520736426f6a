// From a line of one text to the lines of the others that are the same thing.

import type { Code, Page } from "./model";

/** What is selected, as lines of each text; a line of a nest is `part:line`. */
export interface Selection {
  readonly nests: ReadonlySet<string>;
  readonly kernel: ReadonlySet<number>;
  readonly CUDA: ReadonlySet<number>;
  readonly PTX: ReadonlySet<number>;
  readonly SASS: ReadonlySet<number>;
}

export type Language = "kernel" | "CUDA" | "PTX" | "SASS";

const none: ReadonlySet<never> = new Set<never>();

export const NOTHING: Selection = { nests: none, kernel: none, CUDA: none, PTX: none, SASS: none };

export class Links {
  private readonly codes: Record<string, Code>;

  constructor(private readonly page: Page) {
    this.codes = Object.fromEntries(page.codes.map((code) => [code.language, code]));
  }

  /** What belongs to a line of a loop nest. */
  ofNest(nest: number, line: number): Selection {
    const links = this.page.nests[nest]?.lines[line]?.lines.at(-1) ?? [];
    return { ...this.ofKernel(new Set(links)), nests: new Set([`${nest}:${line}`]) };
  }

  /** What belongs to a line of a text. */
  ofLine(language: Language, line: number): Selection {
    if (language === "kernel") return this.withNests(this.ofKernel(new Set([line])));
    const cuda = language === "CUDA" ? line : (this.codes[language]?.origins[line] ?? -1);
    const kernel = this.codes["CUDA"]?.origins[cuda] ?? -1;
    if (kernel >= 0) return this.withNests(this.ofKernel(new Set([kernel])));
    if (cuda >= 0) return this.ofCuda(new Set([cuda]), none);
    return { ...NOTHING, [language]: new Set([line]) };
  }

  /** What belongs to tensors, by the expressions that make them. */
  ofTensor(name: string): Selection {
    const nests = new Set<string>();
    const kernel = new Set<number>();
    this.page.nests.forEach((nest, at) =>
      nest.lines.forEach((line, number) => {
        if (line.loop || !line.tensors.includes(name)) return;
        nests.add(`${at}:${number}`);
        for (const link of line.lines.at(-1) ?? []) kernel.add(link);
      }),
    );
    return { ...this.ofKernel(kernel), nests };
  }

  private ofKernel(kernel: ReadonlySet<number>): Selection {
    return this.ofCuda(this.made("CUDA", kernel), kernel);
  }

  private ofCuda(cuda: ReadonlySet<number>, kernel: ReadonlySet<number>): Selection {
    return {
      nests: none,
      kernel,
      CUDA: cuda,
      PTX: this.made("PTX", cuda),
      SASS: this.made("SASS", cuda),
    };
  }

  /** The loops and expressions that became some line of the kernel. */
  private withNests(found: Selection): Selection {
    const nests = new Set<string>();
    this.page.nests.forEach((nest, at) =>
      nest.lines.forEach((line, number) => {
        if (line.lines.at(-1)?.some((link) => found.kernel.has(link))) nests.add(`${at}:${number}`);
      }),
    );
    return { ...found, nests };
  }

  /** The lines of a text that were made from some of another one. */
  private made(language: string, from: ReadonlySet<number>): ReadonlySet<number> {
    const found = new Set<number>();
    this.codes[language]?.origins.forEach((origin, line) => {
      if (from.has(origin)) found.add(line);
    });
    return found;
  }
}
