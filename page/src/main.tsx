import { render } from "preact";
import { useEffect } from "preact/hooks";
import { CodeTab } from "./code";
import { unpack } from "./data";
import { Help } from "./help";
import { onKey } from "./keys";
import { Machine } from "./machine";
import { Overview } from "./overview";
import { Parameters } from "./parameters";
import { Passes } from "./passes";
import { ProgramTab } from "./program";
import { book, help, kernel, open, page, tab, tabs, theme, turnTo } from "./state";
import { Time } from "./time";
import type { Book, Page } from "./model";

function App() {
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme.value;
  }, [theme.value]);
  useEffect(() => {
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  const [shown, all] = [page.value, book.value];
  if (shown === null || all === null) return <p>…</p>;
  return (
    <>
      <header>
        <h1>
          wsched <span>{all.title}</span>
        </h1>
        {all.kernels.length > 1 ? <Kernels all={all} /> : null}
        <nav role="tablist" aria-label="What to look at">
          {tabs.value.map((name, i) => (
            <button
              type="button"
              role="tab"
              id={`tab-${name}`}
              aria-selected={tab.value === name}
              aria-controls="panel"
              title={`${i + 1}`}
              onClick={() => (tab.value = name)}
            >
              {name}
            </button>
          ))}
        </nav>
        <button type="button" title="Light or dark (t)" onClick={() => (theme.value = theme.value === "dark" ? "light" : "dark")}>
          {theme.value === "dark" ? "light" : "dark"}
        </button>
        <button type="button" title="Keys (?)" aria-expanded={help.value} onClick={() => (help.value = !help.value)}>
          ?
        </button>
      </header>
      {help.value ? <Help /> : null}
      <main>
        <div id="panel" role="tabpanel" aria-labelledby={`tab-${tab.value}`}>
          <Panel shown={shown} all={all} />
        </div>
      </main>
      <footer>wsched {all.version}</footer>
    </>
  );
}

/** Which of several kernels the other tabs are of. */
function Kernels({ all }: { readonly all: Book }) {
  return (
    <label>
      kernel{" "}
      <select id="kernel" onChange={(event) => turnTo(Number(event.currentTarget.value))}>
        {all.kernels.map(({ title }, i) => (
          <option value={i} selected={i === kernel.value}>
            {i + 1}: {title.split(" ")[0]}
          </option>
        ))}
      </select>
    </label>
  );
}

function Panel({ shown, all }: { readonly shown: Page; readonly all: Book }) {
  switch (tab.value) {
    case "Program":
      return all.program ? <ProgramTab program={all.program} /> : null;
    case "Overview":
      return <Overview page={shown} />;
    case "Code":
      return <CodeTab page={shown} />;
    case "Passes":
      return <Passes page={shown} />;
    case "Machine":
      return <Machine page={shown} />;
    case "Time":
      return <Time page={shown} />;
    case "Parameters":
      return <Parameters page={shown} />;
  }
}

const root = document.getElementById("app")!;
unpack(document.getElementById("data")!.textContent ?? "").then(
  (made) => {
    open(made);
    root.textContent = "";
    render(<App />, root);
  },
  (error: unknown) => {
    root.textContent = `The page's data cannot be read: ${String(error)}`;
  },
);
