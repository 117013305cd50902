/** A value that components can follow. */
import { useEffect, useState } from "preact/hooks";

export class Store<T> {
  private listeners = new Set<() => void>();

  constructor(private value: T) {}

  get(): T {
    return this.value;
  }

  set(value: T): void {
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const listener of [...this.listeners]) listener();
  }

  /** Calls `listener` after each change. Returns the function that ends this. */
  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Returns the value, and draws the component again when it changes. A hook. */
  use(): T {
    const [, draw] = useState(0);
    useEffect(() => {
      const shown = this.value;
      const redraw = () => draw((n) => n + 1);
      const end = this.subscribe(redraw);
      if (!Object.is(shown, this.value)) redraw();
      return end;
    }, []);
    return this.value;
  }
}

/** A store that remembers its value in the browser. Without storage (a private window) it only forgets. */
export function remembered(key: string, initial: string): Store<string> {
  let first = initial;
  try {
    first = localStorage.getItem(key) ?? initial;
  } catch {
    // Storage is forbidden: the initial value is used.
  }
  const store = new Store(first);
  store.subscribe(() => {
    try {
      localStorage.setItem(key, store.get());
    } catch {
      // Storage is forbidden or full: the choice lasts as long as the page.
    }
  });
  return store;
}
