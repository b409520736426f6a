// A lane for each warp: what it does in each frame. A click goes there.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { Does, type Player } from "./player";
import { frame, seek, theme, warp } from "./state";

const LANE = 14;

const COLOURS: Record<Does, string> = {
  [Does.Nothing]: "--lane",
  [Does.Runs]: "--runs",
  [Does.Waits]: "--waits",
  [Does.Over]: "--panel",
};

export function Lanes({ player }: { readonly player: Player }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const lanes = useMemo(() => player.lanes(), [player]);
  const tiles = useMemo(() => player.tiles(), [player]);
  const height = lanes.length * LANE;

  useEffect(() => {
    const shown = canvas.current!;
    const watcher = new ResizeObserver(() => paint(shown, lanes, tiles, player.length));
    watcher.observe(shown); // which calls it at once
    return () => watcher.disconnect();
  }, [lanes, theme.value]);

  const pick = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    seek(Math.floor(((event.clientX - box.left) / box.width) * player.length));
    warp.value = Math.max(0, Math.min(lanes.length - 1, Math.floor((event.clientY - box.top) / LANE)));
  };
  return (
    <div class="lanes">
      <div class="names" aria-hidden="true">
        {player.film.warps.map((each, i) => (
          <div class={i === warp.value ? "chosen" : ""} style={{ height: `${LANE}px` }}>
            {`${each.cta}.${each.warp} ${each.role}[${each.group}]`}
          </div>
        ))}
      </div>
      <div class="strip">
        <canvas ref={canvas} style={{ height: `${height}px` }} onClick={pick} role="img" aria-label="What each warp does in each frame" />
        <div class="cursor" style={{ left: `${(100 * (frame.value + 0.5)) / player.length}%` }} />
      </div>
    </div>
  );
}

function paint(canvas: HTMLCanvasElement, lanes: readonly Uint8Array[], tiles: readonly number[], length: number) {
  const ratio = devicePixelRatio;
  const width = Math.max(1, Math.floor(canvas.clientWidth * ratio));
  canvas.width = width;
  canvas.height = lanes.length * LANE * ratio;
  const context = canvas.getContext("2d")!;
  const style = getComputedStyle(canvas);
  const colour = (name: string) => style.getPropertyValue(name);
  context.fillStyle = colour("--lane");
  context.fillRect(0, 0, width, canvas.height);
  lanes.forEach((lane, row) => {
    for (let pixel = 0; pixel < width; pixel++) {
      const does = strongest(lane, Math.floor((pixel * length) / width), Math.ceil(((pixel + 1) * length) / width));
      if (does === Does.Nothing) continue;
      context.fillStyle = colour(COLOURS[does]);
      context.fillRect(pixel, (row * LANE + 2) * ratio, 1, (LANE - 4) * ratio);
    }
  });
  context.fillStyle = colour("--text");
  for (const at of tiles) context.fillRect(Math.floor((at * width) / length), 0, 1, 3 * ratio);
}

/** What stands for some frames: that the warp ran, else waited, else is over. */
function strongest(lane: Uint8Array, from: number, to: number): Does {
  let found = lane[from] ?? Does.Nothing;
  for (let i = from; i < to; i++) {
    if (lane[i] === Does.Runs) return Does.Runs;
    if (lane[i] === Does.Waits) found = Does.Waits;
  }
  return found;
}
