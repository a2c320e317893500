// React 19: the callbacks of a root and an error boundary. React itself is the page's, so this imports nothing.

/** @import { ErrorInfo } from "react" */
/** @import { BoundaryProps } from "./react.d.ts" */

/** What React does when nobody asks for these errors. @param {unknown} error */
const rethrow = (error) => {
  // window.onerror sees an object again, and the reporter knows it; it could not know a bare value.
  if (Object(error) === error && typeof reportError === "function") reportError(error);
  else console.error(error);
};

/** @type {typeof import("./react.d.ts").rootCallbacks} */
export const rootCallbacks = (reporter, callbacks = {}) => ({
  onUncaughtError(error, info) {
    reporter.report(error, "react");
    (callbacks.onUncaughtError ?? rethrow)(error, info);
  },
  onCaughtError(error, info) {
    reporter.report(error, "react");
    (callbacks.onCaughtError ?? console.error)(error, info);
  },
});

/** @type {typeof import("./react.d.ts").errorBoundary} */
export const errorBoundary = ({ Component }, reporter) =>
  class extends Component {
    static displayName = "ErrorBoundary";

    /** @param {BoundaryProps} props */
    constructor(props) {
      super(props);
      /** @type {{ failed: boolean, error?: unknown }} */
      this.state = { failed: false };
    }

    /** @param {unknown} error */
    static getDerivedStateFromError(error) {
      return { failed: true, error };
    }

    /** @param {unknown} error @param {ErrorInfo} _info */
    componentDidCatch(error, _info) {
      reporter.report(error, "react");
    }

    render() {
      const { failed, error } = this.state;
      const { children, fallback = null } = this.props;
      if (!failed) return children;
      return typeof fallback === "function" ? fallback(error, () => this.setState({ failed: false })) : fallback;
    }
  };
