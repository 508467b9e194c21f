/**
 * Hears every message that a transport receives, in the order of arrival, before the client deals with it: clients run
 * notification handlers side by side and hide acknowledgements. Nothing is taken away from the client or its handlers.
 */
export type MessageListener = (message: unknown) => void;

interface Tappable {
  onmessage?: ((...details: unknown[]) => unknown) | undefined;
}

interface Layer {
  readonly listeners: Set<MessageListener>;
  remove(): void;
}

/** One layer per transport, however many listen and in whatever order they leave. */
const LAYERS = new WeakMap<object, Layer>();

/** @returns the way to stop; the last one to stop puts back what was there. */
export function tap(transport: object, listener: MessageListener): () => void {
  const layer = LAYERS.get(transport) ?? addLayer(transport);
  layer.listeners.add(listener);
  return () => {
    layer.listeners.delete(listener);
    if (layer.listeners.size === 0) layer.remove();
  };
}

function addLayer(transport: Tappable): Layer {
  const listeners = new Set<MessageListener>();
  const previous = transport.onmessage;
  const onmessage = function (this: unknown, ...details: unknown[]): unknown {
    for (const each of [...listeners]) each(details[0]);
    return previous?.apply(this, details);
  };
  const layer = {
    listeners,
    remove: () => {
      // Somebody may have put a layer above this one; then it stays, and passes everything on.
      if (transport.onmessage !== onmessage) return;
      transport.onmessage = previous;
      LAYERS.delete(transport);
    },
  };
  transport.onmessage = onmessage;
  LAYERS.set(transport, layer);
  return layer;
}
