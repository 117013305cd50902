/** Asks the broker again and again, as long as somebody looks. */
import { useEffect, useRef, useState } from "preact/hooks";
import { type ApiError, goneSince, request, toApiError } from "./api";
import { Store, remembered } from "./store";

/** The choices for the time between two requests, in seconds. 0 means never. */
export const INTERVALS = ["2", "5", "15", "60", "0"];
export const interval = remembered("sluice.interval", "5");

/** The time after which an absent broker is asked again, in milliseconds. */
const RETRY_MS = 2_000;

/**
 * A request that takes long is repeated less often, because it costs the broker much: the wait is this multiple of its time,
 * and at most `WAIT_MS_MAX`, so that the page does not seem to have stopped.
 */
const WAIT_PER_TIME = 4;
const WAIT_MS_MAX = 60_000;

const generation = new Store(0);

/** Asks for everything again that is shown, because it was changed. */
export function refresh(): void {
  generation.set(generation.get() + 1);
}

export interface Loaded<T> {
  data: T | undefined;
  error: ApiError | undefined;
  /** True if the answer belongs to the previous path, because the one to the present path has not arrived. */
  previous: boolean;
}

export interface PollOptions {
  /** Shows the previous answer until the answer to a changed path arrives. */
  keep?: boolean;
  /** Asks only once. */
  once?: boolean;
  answers?: number[];
}

/** Returns the newest answer to GET `target`, and the error of the newest request. A hook. */
export function useApi<T>(target: string | null, options: PollOptions = {}): Loaded<T> {
  const [, draw] = useState(0);
  const state = useRef<Loaded<T> & { target: string | null }>({ data: undefined, error: undefined, previous: false, target: null });
  if (state.current.target !== target) {
    const data = options.keep && target !== null ? state.current.data : undefined;
    state.current = { data, error: undefined, previous: data !== undefined, target };
  }
  const { once, answers } = options;
  const now = generation.use();
  const seconds = Number(interval.use());
  useEffect(() => {
    if (target === null) return undefined;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let running = false;
    const ask = async () => {
      if (running || abort.signal.aborted) return;
      running = true;
      const started = performance.now();
      try {
        const data = (await request("GET", target, { signal: abort.signal, ...(answers ? { answers } : {}) })) as T;
        if (state.current.target === target) state.current = { data, error: undefined, previous: false, target };
      } catch (error) {
        if (abort.signal.aborted) return;
        const shown = toApiError(error);
        state.current = { ...state.current, error: shown };
      } finally {
        running = false;
      }
      if (abort.signal.aborted) return;
      draw((n) => n + 1);
      if (document.hidden) return;
      const gone = goneSince.get() !== null;
      if (!gone && (once || seconds === 0)) return;
      const wait = gone ? RETRY_MS : Math.max(seconds * 1000, Math.min(WAIT_MS_MAX, (performance.now() - started) * WAIT_PER_TIME));
      timer = setTimeout(() => {
        timer = undefined;
        // Nobody looks: the next request waits until somebody does.
        if (!document.hidden) void ask();
      }, wait);
    };
    const shown = () => {
      if (!document.hidden && timer === undefined && !running && (!once || state.current.data === undefined)) void ask();
    };
    document.addEventListener("visibilitychange", shown);
    void ask();
    return () => {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [target, now, seconds, once]);
  return state.current;
}
