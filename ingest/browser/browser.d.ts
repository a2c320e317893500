/** What the error came through: `window.onerror`, an unhandled rejection, React, or `report()`. */
export type Kind = "error" | "unhandledrejection" | "react" | "other";

/** What is sent of one error, as `beforeSend` sees it. Other keys are not sent. */
export interface Report {
  readonly kind: Kind;
  /** Name and message of what was thrown; addresses in it hold no query and no fragment. */
  message: string;
  /** The stack as the engine wrote it, with name and message in front; empty when there is none. */
  stack: string;
  /** Where the page was: `location.pathname`. */
  url: string;
  /** The build mode. */
  build: string;
  release?: string;
  /** 32 hex digits. */
  trace_id?: string;
}

export interface Options {
  /** Where reports go; the default is `/api/telemetry/errors` of the page's own origin. */
  endpoint?: string;
  /**
   * The bearer token of whoever is signed in; nothing is sent while it gives null. Leave it out where a cookie
   * or a proxy says who is speaking: cookies are then sent along, and a beacon is used at the page's end.
   */
  getToken?: () => string | null | undefined | Promise<string | null | undefined>;
  /** The workspace that is open, for users of several: sent as `X-Workspace`. */
  getWorkspace?: () => string | null | undefined | Promise<string | null | undefined>;
  /** Called once for each error that is new within its window: return the report, changed or not; or null to drop it. */
  beforeSend?: (report: Report) => Report | null | undefined | false;
  /** The build mode: `production` (the default) or `development`. */
  build?: string;
  /** The console's release, when operators are to see it. */
  release?: string;
  /** The id of the trace in which `error` arose; `traceId` of `trace.js` is such a function. */
  traceId?: (error: unknown) => string | undefined;
  /** Most posts that one page makes (50). */
  limit?: number;
}

export interface Reporter {
  /** Report an error that the page handled itself. Never throws; what was reported before is left out. */
  report(error: unknown, kind?: Kind): void;
  /** Let go of the page: no handler, no timer and no further report. */
  close(): void;
}

export type Install = (options?: Options) => Reporter;

/** Report what the page throws from now on. Never throws. */
export declare const install: Install;
