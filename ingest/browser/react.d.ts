import type { Component, ErrorInfo, ReactNode } from "react";
import type { Reporter } from "./browser.d.ts";

type Callback = (error: unknown, info: ErrorInfo) => void;

export interface RootCallbacks {
  onUncaughtError: Callback;
  onCaughtError: Callback;
}

/**
 * For `createRoot(element, rootCallbacks(reporter))` and `hydrateRoot`: each error is reported once, as `react`.
 * `callbacks` are called afterwards; without them React's own behaviour stays (`reportError`, `console.error`).
 */
export declare const rootCallbacks: (reporter: Reporter, callbacks?: Partial<RootCallbacks>) => RootCallbacks;

export interface BoundaryProps {
  children?: ReactNode;
  /** Shown instead of the children once they failed; `retry` renders them again. */
  fallback?: ReactNode | ((error: unknown, retry: () => void) => ReactNode);
}

/** `const Boundary = errorBoundary(React, reporter)`: a component that reports what its children throw, as `react`. */
export declare const errorBoundary: (
  React: { Component: typeof Component },
  reporter: Reporter,
) => new (props: BoundaryProps) => Component<BoundaryProps>;
