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
import { help, page, tab, TABS, theme } from "./state";
import { Time } from "./time";
import type { Page } from "./model";

function App() {
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme.value;
  }, [theme.value]);
  useEffect(() => {
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  const shown = page.value;
  if (shown === null) return <p>…</p>;
  return (
    <>
      <header>
        <h1>
          wsched <span>{shown.title}</span>
        </h1>
        <nav role="tablist" aria-label="What to look at">
          {TABS.map((name, i) => (
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
          <Panel shown={shown} />
        </div>
      </main>
      <footer>wsched {shown.version}</footer>
    </>
  );
}

function Panel({ shown }: { readonly shown: Page }) {
  switch (tab.value) {
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
    page.value = made;
    root.textContent = "";
    render(<App />, root);
  },
  (error: unknown) => {
    root.textContent = `The page's data cannot be read: ${String(error)}`;
  },
);
