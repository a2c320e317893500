/**
 * The address behind "Send feedback", https or mailto, as the service's operator set it; null: don't show the
 * link. Asks `endpoint` (`/api/config` of the page's own origin). Never rejects.
 */
export declare const feedbackUrl: (endpoint?: string) => Promise<string | null>;
