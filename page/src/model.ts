// Written by tools/write_page_types.py from wsched/explore/data.py, which explains it.

export interface Bar {
  readonly name: string;
  readonly begin: number;
  readonly end: number;
  readonly tile: number;
}

export interface Barrier {
  readonly cta: number;
  readonly array: string;
  readonly index: number;
  readonly named: boolean;
  readonly ring: string;
  readonly end: string;
}

export interface Book {
  readonly title: string;
  readonly program: Program | null;
  readonly kernels: readonly Page[];
  readonly version: string;
}

export interface Choice {
  readonly name: string;
  readonly value: string;
  readonly reason: string;
  readonly others: readonly Otherwise[];
}

export interface Code {
  readonly language: string;
  readonly lines: readonly string[];
  readonly origins: readonly number[];
  readonly missing: string;
}

export interface Edge {
  readonly source: string;
  readonly target: string;
  readonly label: string;
  readonly ring: string;
}

export interface Film {
  readonly adversary: string;
  readonly seed: number;
  readonly grid: number;
  readonly warps: readonly Warp[];
  readonly barriers: readonly Barrier[];
  readonly warp_fields: readonly string[];
  readonly barrier_fields: readonly string[];
  readonly texts: readonly string[];
  readonly frames: readonly (readonly number[])[];
  readonly cut: boolean;
}

export interface Flow {
  readonly source: number;
  readonly target: number;
  readonly tensor: string;
}

export interface Graph {
  readonly parts: readonly Part[];
  readonly nodes: readonly Node[];
  readonly edges: readonly Edge[];
  readonly relation: readonly string[];
}

export interface Lane {
  readonly title: string;
  readonly bars: readonly Bar[];
}

export interface Nest {
  readonly part: number;
  readonly lines: readonly NestLine[];
}

export interface NestLine {
  readonly depth: number;
  readonly text: string;
  readonly loop: string;
  readonly tensors: readonly string[];
  readonly lines: readonly (readonly number[])[];
}

export interface Node {
  readonly name: string;
  readonly text: string;
  readonly made: string;
  readonly loops: readonly string[];
  readonly part: number;
  readonly memory: string;
  readonly column: number;
  readonly row: number;
}

export interface Otherwise {
  readonly value: string;
  readonly us: number | null;
  readonly why: string;
}

export interface Page {
  readonly title: string;
  readonly facts: readonly (readonly [string, string])[];
  readonly definition: string;
  readonly graph: Graph;
  readonly nests: readonly Nest[];
  readonly extents: readonly string[];
  readonly stages: readonly Stage[];
  readonly table: readonly string[];
  readonly texts: readonly (readonly number[])[];
  readonly codes: readonly Code[];
  readonly films: readonly Film[];
  readonly unfilmed: string;
  readonly times: readonly TimeLine[];
  readonly choices: readonly Choice[];
  readonly us: number | null;
  readonly ways: readonly (readonly [string, number])[];
}

export interface Part {
  readonly title: string;
  readonly loads: boolean;
}

export interface Program {
  readonly steps: readonly Step[];
  readonly flows: readonly Flow[];
  readonly facts: readonly (readonly [string, string])[];
  readonly definition: string;
}

export interface Stage {
  readonly name: string;
  readonly about: string;
  readonly text: number;
}

export interface Step {
  readonly runs: string;
  readonly title: string;
  readonly lines: readonly string[];
  readonly reads: readonly string[];
  readonly writes: readonly string[];
  readonly kernel: number;
  readonly column: number;
  readonly row: number;
}

export interface TimeLine {
  readonly title: string;
  readonly unit: string;
  readonly about: string;
  readonly lanes: readonly Lane[];
}

export interface Warp {
  readonly cta: number;
  readonly warp: number;
  readonly role: string;
  readonly group: number;
}
