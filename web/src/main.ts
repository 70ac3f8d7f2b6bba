// SPDX-License-Identifier: Apache-2.0
/**
 * The dashboard's start: who is there, then one page at a time, chosen by the path. Every page is taken down before the next
 * is mounted, and what it began ends with its signal.
 */
import { chooseProject, connect, logOut, whoAmI } from "./client.js";
import { watchCluster } from "./cluster.js";
import { rememberFigures } from "./figures.js";
import { Live } from "./live.js";
import { byLink, loginPage, waiting } from "./login.js";
import type { Who } from "./page.js";
import { find } from "./routes.js";
import { type Shell, shell } from "./shell.js";
import { startShortcuts } from "./shortcuts.js";
import { el } from "./ui/el.js";
import { pageHead } from "./ui/head.js";
import { empty, failure, loading } from "./ui/states.js";
import { startTheme } from "./ui/theme.js";
import { toastError } from "./ui/toast.js";

const root = document.getElementById("root")!;
const cloche = connect();
let session: { who: Who; frame: Shell; live: Live } | undefined;
let takeDown: (() => void) | undefined;

function leave(): void {
  takeDown?.();
  takeDown = undefined;
}

async function show(): Promise<void> {
  if (!session) return;
  const { who, frame, live } = session;
  leave();
  const found = find(location.pathname);
  if (!found) {
    frame.main.replaceChildren(pageHead("Not found"), empty("There is no such page", "The address may be wrong, or the page was moved.", ["Go to the ", el("a", { href: "/" }, "overview"), "."]));
    document.title = "cloche";
    return;
  }
  const stop = new AbortController();
  takeDown = () => stop.abort();
  frame.mark(found.route);
  frame.main.replaceChildren(loading());
  try {
    const { page } = await found.route.load();
    if (stop.signal.aborted) return; // another page was asked for meanwhile
    document.title = `${page.title} · cloche`;
    frame.main.replaceChildren();
    const unmount = page.mount(frame.main, { cloche, who, params: found.params, go, live, signal: stop.signal });
    takeDown = () => {
      stop.abort();
      unmount();
    };
  } catch (error) {
    // A daemon that was upgraded has other files: the page is asked for anew.
    frame.main.replaceChildren(failure(error, () => location.reload()));
  }
}

function go(path: string): void {
  if (path !== location.pathname + location.search) history.pushState(null, "", path);
  void show();
  session?.frame.main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

/** Nothing more is asked for: what would come after a logout is refused. */
function end(): void {
  leave();
  session?.live.close();
  session = undefined;
}

function ask(problem?: string): void {
  end();
  loginPage(root, cloche, problem, enter);
}

function enter(who: Who): void {
  /** Ends what is shown, then changes the login; who could not is where he was. */
  const change = (call: () => Promise<void>, then: () => void): void => {
    end();
    call().then(then, (error) => {
      enter(who);
      toastError(error);
    });
  };
  const frame = shell(
    who,
    () => change(() => logOut(cloche), ask),
    (project) => change(() => chooseProject(cloche, project), () => location.assign("/")),
  );
  const live = new Live(cloche, who.isHostAdmin, () => ask("The login has ended."));
  live.onState((state) => frame.state(state));
  rememberFigures(live);
  if (who.isHostAdmin) watchCluster(cloche, live, (isIn) => frame.cluster(isIn));
  session = { who, frame, live };
  root.replaceChildren(frame.node);
  void show();
}

/** Links of our own are gone to without a request. */
document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey && !event.defaultPrevented;
  if (!link || !isPlain || link.target || link.hasAttribute("download") || link.origin !== location.origin || !find(link.pathname)) return;
  if (link.hash && link.pathname === location.pathname) return;
  event.preventDefault();
  go(link.pathname + link.search);
});
window.addEventListener("popstate", () => void show());

async function start(): Promise<void> {
  startTheme();
  startShortcuts(go);
  waiting(root);
  try {
    const who = (await byLink(cloche)) ?? (await whoAmI(cloche));
    if (who) enter(who);
    else ask();
  } catch (error) {
    ask((error as Error).message);
  }
}

void start();
